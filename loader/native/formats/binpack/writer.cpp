#include "formats/binpack/writer.h"

#include <limits>
#include <optional>
#include <utility>

#include "formats/binpack/candidates.h"
#include "formats/binpack/chain.h"
#include "formats/binpack/chunk.h"

namespace sparsepool {
namespace {

using binpack::Bitboard;

// A move as the move text has it: two indices, each among so many.
struct MoveIndices {
    unsigned piece = 0;
    unsigned pieces = 0;
    unsigned target = 0;
    unsigned targets = 0;
};

void put_big_endian16(std::vector<std::uint8_t>& bytes, unsigned value) {
    bytes.push_back(static_cast<std::uint8_t>(value >> 8));
    bytes.push_back(static_cast<std::uint8_t>(value));
}

bool same_position(const chess::Position& a, const chess::Position& b) {
    return a.colours[0] == b.colours[0] && a.colours[1] == b.colours[1] && a.pieces == b.pieces && a.side == b.side &&
           a.castling == b.castling && a.ep_square == b.ep_square;
}

// The square of the pawn that can be taken on `ep_square`.
unsigned passed_pawn_square(unsigned ep_square) { return ep_square < 32 ? ep_square + 8 : ep_square - 8; }

bool ep_square_fits(const chess::Position& position) {
    const unsigned square = position.ep_square;
    if (square == chess::kNoSquare) return true;
    if (square >> 3 != 2 && square >> 3 != 5) return false;
    const unsigned colour = square < 32 ? chess::kWhite : chess::kBlack;
    const Bitboard pawns = position.types[chess::kPawn] & position.colours[colour];
    return (pawns & chess::bit_of(passed_pawn_square(square))) != 0;
}

bool castling_fits(const chess::Position& position) {
    constexpr std::pair<unsigned, unsigned> kCorners[] = {
        {chess::kWhiteKingSide, chess::kH1},
        {chess::kWhiteQueenSide, chess::kA1},
        {chess::kBlackKingSide, chess::kH8},
        {chess::kBlackQueenSide, chess::kA8},
    };
    for (const auto& [right, corner] : kCorners) {
        const unsigned colour = corner >= chess::kA8 ? chess::kBlack : chess::kWhite;
        const Bitboard rooks = position.types[chess::kRook] & position.colours[colour];
        if ((position.castling & right) != 0 && (rooks & chess::bit_of(corner)) == 0) return false;
    }
    return true;
}

std::string why_no_stem(const chess::Entry& entry) {
    if (entry.result < -1 || entry.result > 1) return "result must be -1, 0 or 1";
    if (entry.ply > binpack::kMaxStemPly) return "ply at the start of a chain must be at most 16383";
    if (!castling_fits(entry.position)) return "castling right without a rook in its corner can't be stored";
    if (!ep_square_fits(entry.position)) return "en-passant square without a pawn that passed it can't be stored";
    return {};
}

unsigned packed_code(const chess::Position& position, unsigned code, unsigned square) {
    if (position.ep_square != chess::kNoSquare && square == passed_pawn_square(position.ep_square)) {
        return binpack::kPassedPawn;
    }
    const unsigned rights = position.castling;
    if (code == 2 * chess::kRook) {
        const bool held = (square == chess::kA1 && (rights & chess::kWhiteQueenSide) != 0) ||
                          (square == chess::kH1 && (rights & chess::kWhiteKingSide) != 0);
        return held ? unsigned{binpack::kWhiteRookRight} : code;
    }
    if (code == 2 * chess::kRook + 1) {
        const bool held = (square == chess::kA8 && (rights & chess::kBlackQueenSide) != 0) ||
                          (square == chess::kH8 && (rights & chess::kBlackKingSide) != 0);
        return held ? unsigned{binpack::kBlackRookRight} : code;
    }
    if (code == 2 * chess::kKing + 1 && position.side == chess::kBlack) return binpack::kBlackKingToMove;
    return code;
}

void put_stem(std::vector<std::uint8_t>& bytes, const chess::Entry& entry) {
    const chess::Position& position = entry.position;
    const Bitboard occupied = position.occupied();
    for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(occupied >> shift));
    chess::Nibbles packed = 0;
    unsigned index = 0;
    for (Bitboard rest = occupied; rest != 0; rest &= rest - 1, ++index) {
        const unsigned code = chess::nibble_at(position.pieces, index);
        packed |= chess::Nibbles{packed_code(position, code, chess::first_square(rest))} << (4 * index);
    }
    for (unsigned byte = 0; byte < 16; ++byte) bytes.push_back(static_cast<std::uint8_t>(packed >> (8 * byte)));
    put_big_endian16(bytes, entry.move.word);
    put_big_endian16(bytes, binpack::zigzag(entry.score));
    put_big_endian16(bytes, entry.ply | unsigned{binpack::zigzag(entry.result)} << 14);
    put_big_endian16(bytes, position.rule50);
}

std::optional<MoveIndices> castling_indices(const chess::Position& position, chess::Move move, MoveIndices indices) {
    const unsigned rights = binpack::own_castling(position);
    const unsigned home = position.side == chess::kWhite ? chess::kE1 : chess::kE8;
    const bool king_side = move.to() == home + 3;
    if (move.from() != home || (!king_side && move.to() != home - 4)) return std::nullopt;
    if ((rights & (king_side ? 1U : 2U)) == 0) return std::nullopt;
    indices.target += king_side && (rights & 2) != 0 ? 1 : 0;
    return indices;
}

// The move's indices; none if the move text can't say exactly this move.
std::optional<MoveIndices> find_indices(const chess::Position& position, chess::Move move) {
    const Bitboard own = position.colours[position.side];
    const unsigned from = move.from();
    if ((own & chess::bit_of(from)) == 0) return std::nullopt;
    const unsigned code = chess::nibble_at(position.pieces, chess::squares_before(position.occupied(), from));
    const unsigned type = code >> 1;
    const Bitboard targets = binpack::destinations(position, type, from);
    MoveIndices indices{chess::squares_before(own, from), chess::count_squares(own), 0, chess::count_squares(targets)};
    if (type == chess::kKing) {
        const unsigned rights = binpack::own_castling(position);
        if (move.type() == chess::MoveType::kCastling) indices.target = indices.targets;
        indices.targets += (rights & 1) + (rights >> 1);
    }
    const unsigned promotion = move.word & 3U;
    if (move.type() == chess::MoveType::kCastling) {
        const bool plain = type == chess::kKing && promotion == 0;
        return plain ? castling_indices(position, move, indices) : std::nullopt;
    }
    if ((targets & chess::bit_of(move.to())) == 0) return std::nullopt;
    indices.target = chess::squares_before(targets, move.to());
    if (type == chess::kPawn && binpack::promotes_next(position.side, from)) {
        if (move.type() != chess::MoveType::kPromotion) return std::nullopt;
        indices.target = 4 * indices.target + promotion;
        indices.targets *= 4;
        return indices;
    }
    const bool passing = type == chess::kPawn && move.to() == position.ep_square;
    const chess::MoveType expected = passing ? chess::MoveType::kEnPassant : chess::MoveType::kNormal;
    if (move.type() != expected || promotion != 0) return std::nullopt;
    return indices;
}

}  // namespace

std::string BinpackWriter::add(const chess::Entry& entry) {
    if (!add_follower(entry)) {
        std::string fault = why_no_stem(entry);
        if (!fault.empty()) return fault;
        end_chain();
        if (payload_.size() >= binpack::kFullChunk) end_chunk();
        begin_chain(entry);
    }
    last_ = entry;
    ++entries_;
    return {};
}

// Writes the entry if it continues the open chain.
bool BinpackWriter::add_follower(const chess::Entry& entry) {
    if (!open_ || followers_ == binpack::kMaxFollowers) return false;
    if (entry.result != -last_.result || entry.ply != static_cast<std::uint16_t>(last_.ply + 1)) return false;
    chess::Position next = last_.position;
    if (chess::play(next, last_.move) != chess::MoveFault::kNone || !same_position(next, entry.position)) return false;
    const std::optional<MoveIndices> indices = find_indices(entry.position, entry.move);
    if (!indices) return false;
    put_bits(indices->piece, binpack::index_bits(indices->pieces));
    put_bits(indices->target, binpack::index_bits(indices->targets));
    put_score(binpack::zigzag(static_cast<std::int16_t>(entry.score + last_.score)));
    ++followers_;
    return true;
}

void BinpackWriter::begin_chain(const chess::Entry& entry) {
    stem_ = payload_.size();
    put_stem(payload_, entry);
    put_big_endian16(payload_, 0);  // the count, known at the end of the chain
    open_ = true;
    followers_ = 0;
    free_bits_ = 0;
    ++chains_;
}

void BinpackWriter::end_chain() {
    if (!open_) return;
    payload_[stem_ + binpack::kStemBytes] = static_cast<std::uint8_t>(followers_ >> 8);
    payload_[stem_ + binpack::kStemBytes + 1] = static_cast<std::uint8_t>(followers_);
    open_ = false;
}

void BinpackWriter::end_chunk() {
    if (payload_.empty()) return;
    closed_.insert(closed_.end(), std::begin(binpack::kMagic), std::end(binpack::kMagic));
    const auto size = static_cast<std::uint32_t>(payload_.size());
    for (int shift = 0; shift < 32; shift += 8) closed_.push_back(static_cast<std::uint8_t>(size >> shift));
    closed_.insert(closed_.end(), payload_.begin(), payload_.end());
    payload_.clear();
    ++chunks_;
}

void BinpackWriter::finish() {
    end_chain();
    end_chunk();
}

std::vector<std::uint8_t> BinpackWriter::take() { return std::exchange(closed_, {}); }

void BinpackWriter::put_bits(unsigned value, unsigned count) {
    while (count > 0) {
        if (free_bits_ == 0) {
            payload_.push_back(0);
            free_bits_ = 8;
        }
        const unsigned now = count < free_bits_ ? count : free_bits_;
        const unsigned bits = value >> (count - now) & ((1U << now) - 1);
        free_bits_ -= now;
        count -= now;
        payload_.back() = static_cast<std::uint8_t>(payload_.back() | bits << free_bits_);
    }
}

void BinpackWriter::put_score(std::uint16_t value) {
    unsigned rest = value;
    do {
        const unsigned more = rest > 15 ? 16 : 0;
        put_bits(more | (rest & 15), 5);
        rest >>= 4;
    } while (rest != 0);
}

std::optional<Damage> copy_chunk(const BinpackFile& file, std::size_t chunk, std::uint32_t first_chain,
                                 BinpackWriter& writer) {
    for (const bool before : {false, true}) {
        if (before && first_chain == 0) break;
        binpack::ChunkState state;
        state.payload = file.payload(chunk);
        while (binpack::next_entry(state)) {
            if (before && state.chains > first_chain) break;
            if (!before && state.chains <= first_chain) continue;
            std::string fault = writer.add(state.entry);
            if (!fault.empty()) return Damage{file.payload_offset(chunk) + state.stem, state.number, std::move(fault)};
        }
        if (state.fault != binpack::Fault::kNone) return damage_of(state, file.payload_offset(chunk));
    }
    return std::nullopt;
}

}  // namespace sparsepool
