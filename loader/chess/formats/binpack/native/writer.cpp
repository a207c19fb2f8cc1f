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

// A move as the move text has it: two indices, each among so many.
struct MoveIndices {
    unsigned piece = 0;
    unsigned pieces = 0;
    unsigned target = 0;
    unsigned targets = 0;
};

bool same_position(const chess::Position& a, const chess::Position& b) {
    return a.occupied == b.occupied && std::equal(std::begin(a.planes), std::end(a.planes), b.planes) &&
           a.side == b.side && a.castling == b.castling && a.ep_square == b.ep_square;
}

std::optional<MoveIndices> castling_indices(const chess::Position& position, chess::Move move, MoveIndices indices) {
    const unsigned rights = own_castling(position);
    const unsigned home = position.side == chess::kWhite ? chess::kE1 : chess::kE8;
    const bool king_side = move.to() == home + 3;
    if (move.from() != home || (!king_side && move.to() != home - 4)) return std::nullopt;
    if ((rights & (king_side ? 1U : 2U)) == 0) return std::nullopt;
    indices.target += king_side && (rights & 2) != 0 ? 1 : 0;
    return indices;
}

// The move's indices; none if the move text can't say exactly this move.
std::optional<MoveIndices> find_indices(const chess::Position& position, chess::Move move) {
    const Bitboard own = position.of_colour(position.side);
    const unsigned from = move.from();
    if ((own & chess::bit_of(from)) == 0) return std::nullopt;
    const unsigned type = position.type_at(from);
    const Bitboard targets = destinations(position, own, type, from);
    MoveIndices indices{chess::squares_before(own, from), chess::count_squares(own), 0, chess::count_squares(targets)};
    if (type == chess::kKing) {
        const unsigned rights = own_castling(position);
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
    if (type == chess::kPawn && chess::promotes_next(position.side, from)) {
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

std::string Writer::add(const chess::Entry& entry) {
    if (!add_follower(entry)) {
        std::string fault = find_stem_problem(entry);
        if (!fault.empty()) return fault;
        end_chain();
        if (payload_.size() >= kFullChunk) end_chunk();
        begin_chain(entry);
    }
    count_changes(entry, 0, 65535);
    last_ = entry;
    ++entries_;
    return {};
}

// Writes the entry if it continues the open chain.
bool Writer::add_follower(const chess::Entry& entry) {
    if (!open_ || followers_ == kMaxFollowers) return false;
    if (entry.result != -last_.result || entry.ply != chess::saturating_increment(last_.ply)) return false;
    chess::Position next = last_.position;
    if (chess::play(next, last_.move) != chess::MoveFault::kNone || !same_position(next, entry.position)) return false;
    const std::optional<MoveIndices> indices = find_indices(entry.position, entry.move);
    if (!indices) return false;
    put_bits(indices->piece, index_bits(indices->pieces));
    put_bits(indices->target, index_bits(indices->targets));
    put_score(zigzag(static_cast<std::int16_t>(entry.score + last_.score)));
    ++followers_;
    return true;
}

void Writer::begin_chain(const chess::Entry& entry) {
    stem_ = payload_.size();
    append_stem(payload_, entry);
    payload_.resize(payload_.size() + 2);  // the count, known at the end of the chain
    open_ = true;
    followers_ = 0;
    free_bits_ = 0;
    ++chains_;
}

void Writer::end_chain() {
    if (!open_) return;
    payload_[stem_ + kStemBytes] = static_cast<std::uint8_t>(followers_ >> 8);
    payload_[stem_ + kStemBytes + 1] = static_cast<std::uint8_t>(followers_);
    open_ = false;
}

void Writer::end_chunk() {
    if (payload_.empty()) return;
    output_.insert(output_.end(), std::begin(kMagic), std::end(kMagic));
    const auto size = static_cast<std::uint32_t>(payload_.size());
    for (int shift = 0; shift < 32; shift += 8) output_.push_back(static_cast<std::uint8_t>(size >> shift));
    output_.insert(output_.end(), payload_.begin(), payload_.end());
    payload_.clear();
    ++chunks_;
}

void Writer::finish() {
    end_chain();
    end_chunk();
}

void Writer::put_bits(unsigned value, unsigned count) {
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

void Writer::put_score(std::uint16_t value) {
    unsigned rest = value;
    do {
        const unsigned more = rest > 15 ? 16 : 0;
        put_bits(more | (rest & 15), 5);
        rest >>= 4;
    } while (rest != 0);
}

}  // namespace sparsepool::binpack
