#include "chess/formats/binpack/native/writer.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "chess/formats/binpack/native/entries/candidates.h"
#include "chess/formats/binpack/native/entries/chain.h"
#include "chess/formats/binpack/native/entries/stem_writer.h"

namespace sparsepool::binpack {
namespace {

// A move as the move text has it: the index of the piece among the own pieces, and that of the move among the piece's
// moves. The number of values of an index gives its bits.
struct MoveIndices {
    unsigned piece = 0;
    unsigned num_pieces = 0;
    unsigned target = 0;
    unsigned num_targets = 0;
};

// Whether the positions are equal in all that the move text keeps.
bool are_equal(const chess::Position& a, const chess::Position& b) {
    return a.occupied == b.occupied && std::equal(std::begin(a.planes), std::end(a.planes), b.planes) &&
           a.side == b.side && a.castling == b.castling && a.ep_square == b.ep_square;
}

// Returns the index of castling: behind the king's other moves, queen-side before king-side. Nothing if the side to
// move has no such right, or does not castle from the e-file onto a corner.
std::optional<unsigned> find_castling_index(const chess::Position& position, chess::Move move, unsigned num_targets) {
    const unsigned rights = own_castling(position);
    const bool has_king_side = (rights & 1) != 0;
    const bool has_queen_side = (rights & 2) != 0;
    const unsigned home = position.side == chess::kWhite ? chess::kE1 : chess::kE8;
    if (move.from() != home) return std::nullopt;
    if (move.to() == home - 4) return has_queen_side ? std::optional(num_targets) : std::nullopt;
    if (move.to() != home + 3 || !has_king_side) return std::nullopt;
    return num_targets + (has_queen_side ? 1 : 0);
}

// Returns the index of a move that is not castling among its piece's `targets`, with four for each target of a
// promotion. Nothing if the move text can't express exactly this move.
std::optional<unsigned> find_target_index(const chess::Position& position, chess::Move move, unsigned type,
                                          Bitboard targets) {
    if ((targets & chess::bit_of(move.to())) == 0) return std::nullopt;
    const unsigned index = chess::squares_before(targets, move.to());
    const unsigned promotion = move.word & 3U;
    if (type == chess::kPawn && chess::promotes_next(position.side, move.from())) {
        if (move.type() != chess::MoveType::kPromotion) return std::nullopt;
        return 4 * index + promotion;
    }
    const bool is_en_passant = type == chess::kPawn && move.to() == position.ep_square;
    const chess::MoveType expected = is_en_passant ? chess::MoveType::kEnPassant : chess::MoveType::kNormal;
    if (move.type() != expected || promotion != 0) return std::nullopt;
    return index;
}

// Returns the indices of a move; nothing if the move text can't express exactly this move.
std::optional<MoveIndices> find_indices(const chess::Position& position, chess::Move move) {
    const Bitboard own = position.of_colour(position.side);
    const unsigned from = move.from();
    if ((own & chess::bit_of(from)) == 0) return std::nullopt;
    const unsigned type = position.type_at(from);
    const Bitboard targets = destinations(position, own, type, from);
    unsigned num_targets = chess::count_squares(targets);
    std::optional<unsigned> target;
    if (move.type() == chess::MoveType::kCastling) {
        const bool is_plain = type == chess::kKing && (move.word & 3U) == 0;
        if (is_plain) target = find_castling_index(position, move, num_targets);
    } else {
        target = find_target_index(position, move, type, targets);
    }
    if (!target) return std::nullopt;
    if (type == chess::kKing) num_targets += chess::count_squares(own_castling(position));
    if (move.type() == chess::MoveType::kPromotion) num_targets *= 4;
    return MoveIndices{chess::squares_before(own, from), chess::count_squares(own), *target, num_targets};
}

void append_little_endian32(std::vector<std::uint8_t>& bytes, std::uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<std::uint8_t>(value >> shift));
}

}  // namespace

std::string Writer::add(const chess::Entry& entry) {
    if (!add_to_chain(entry)) {
        std::string problem = find_stem_problem(entry);
        if (!problem.empty()) return problem;
        end_chain();
        if (payload_.size() >= kFullChunk) end_chunk();
        begin_chain(entry);
    }
    count_changes(entry, 0, 65535);
    last_ = entry;
    ++entries_;
    return {};
}

// Writes the entry into the open chain, if it continues that. Returns whether it was written.
bool Writer::add_to_chain(const chess::Entry& entry) {
    if (!open_ || followers_ == kMaxFollowers) return false;
    if (entry.result != -last_.result || entry.ply != chess::saturating_increment(last_.ply)) return false;
    chess::Position next = last_.position;
    if (chess::play(next, last_.move) != chess::MoveFault::kNone || !are_equal(next, entry.position)) return false;
    const std::optional<MoveIndices> indices = find_indices(entry.position, entry.move);
    if (!indices) return false;
    append_bits(indices->piece, index_bits(indices->num_pieces));
    append_bits(indices->target, index_bits(indices->num_targets));
    append_score(zigzag(static_cast<std::int16_t>(entry.score + last_.score)));
    ++followers_;
    return true;
}

void Writer::begin_chain(const chess::Entry& entry) {
    chain_begin_ = payload_.size();
    append_stem(payload_, entry);
    payload_.resize(payload_.size() + 2);  // the number of followers, known at the end of the chain
    open_ = true;
    followers_ = 0;
    free_bits_ = 0;
    ++chains_;
}

void Writer::end_chain() {
    if (!open_) return;
    std::uint8_t* const count = payload_.data() + chain_begin_ + kStemBytes;  // big-endian
    count[0] = static_cast<std::uint8_t>(followers_ >> 8);
    count[1] = static_cast<std::uint8_t>(followers_);
    open_ = false;
}

// Writes the chunk: magic, the payload's size, the payload.
void Writer::end_chunk() {
    if (payload_.empty()) return;
    output_.insert(output_.end(), std::begin(kMagic), std::end(kMagic));
    append_little_endian32(output_, static_cast<std::uint32_t>(payload_.size()));
    output_.insert(output_.end(), payload_.begin(), payload_.end());
    payload_.clear();
    ++chunks_;
}

void Writer::finish() {
    end_chain();
    end_chunk();
}

// Appends the low `count` bits of a value, the highest of them first.
void Writer::append_bits(unsigned value, unsigned count) {
    while (count > 0) {
        if (free_bits_ == 0) {
            payload_.push_back(0);
            free_bits_ = 8;
        }
        const unsigned fitting = std::min(count, free_bits_);
        const unsigned bits = value >> (count - fitting) & ((1U << fitting) - 1);
        free_bits_ -= fitting;
        count -= fitting;
        payload_.back() = static_cast<std::uint8_t>(payload_.back() | bits << free_bits_);
    }
}

// Appends a zigzag code in groups of five bits, as read_score reads it.
void Writer::append_score(std::uint16_t code) {
    constexpr unsigned kContinues = 16;
    unsigned remaining = code;
    while (remaining > 15) {
        append_bits(kContinues | (remaining & 15), 5);
        remaining >>= 4;
    }
    append_bits(remaining, 5);
}

}  // namespace sparsepool::binpack
