#pragma once

#include <cstdint>
#include <span>

#include "chess/rules.h"
#include "formats/binpack/candidates.h"
#include "formats/binpack/layout.h"
#include "formats/binpack/stem.h"

namespace sparsepool::binpack {

// Where a walk through one payload stands. Plain data: a walk may be continued by the code of another
// instruction set. `entry` is the current entry once `next_entry` has said true.
struct ChunkState {
    std::span<const std::uint8_t> payload;
    std::uint64_t bit = 0;         // where the next thing to read begins
    std::uint64_t stem = 0;        // offset of the current chain in the payload
    std::uint32_t followers = 0;   // entries of the current chain still to come
    std::uint32_t number = 0;      // of the current entry within its chain, the stem is 0
    std::uint32_t chains = 0;      // begun so far
    Fault fault = Fault::kNone;    // then `number` is that of the first entry not delivered
    chess::Entry entry;
};

inline namespace SPARSEPOOL_ISA {

// The bits of one entry of the move text, taken from one word: there are 30 at most.
class EntryBits {
  public:
    EntryBits(std::span<const std::uint8_t> payload, std::uint64_t bit) {
        const std::uint64_t byte = bit >> 3;
        std::uint8_t tail[8] = {};
        const std::uint8_t* bytes = payload.data() + byte;
        if (byte + sizeof tail > payload.size()) {  // the end of the payload: what lies beyond reads as zero
            if (byte < payload.size()) std::memcpy(tail, bytes, payload.size() - byte);
            bytes = tail;
        }
        word_ = load_big_endian(bytes) << (bit & 7);
    }

    [[nodiscard]] unsigned take(unsigned count) {
        const auto bits = static_cast<unsigned>((word_ >> 1) >> (63 - count));
        word_ <<= count;
        used_ += count;
        return bits;
    }

    [[nodiscard]] unsigned used() const { return used_; }

  private:
    std::uint64_t word_ = 0;
    unsigned used_ = 0;
};

[[nodiscard]] inline Fault as_fault(chess::MoveFault fault) {
    switch (fault) {
        case chess::MoveFault::kNone: return Fault::kNone;
        case chess::MoveFault::kNotOwnPiece: return Fault::kNotOwnPiece;
        case chess::MoveFault::kOntoOwnPiece: return Fault::kOntoOwnPiece;
        case chess::MoveFault::kTakesKing: return Fault::kTakesKing;
        case chess::MoveFault::kNotAPawn: return Fault::kNotAPawn;
        case chess::MoveFault::kNoPawnToTake: return Fault::kNoPawnToTake;
        case chess::MoveFault::kBadCastling: return Fault::kBadCastling;
    }
    return Fault::kNotOwnPiece;
}

[[nodiscard]] inline Fault read_pawn_move(EntryBits& bits, const chess::Position& position, unsigned from,
                                          chess::Move& move) {
    const Bitboard targets = pawn_destinations(position, from);
    const unsigned count = chess::count_squares(targets);
    if (promotes_next(position.side, from)) {
        const unsigned index = bits.take(index_bits(4 * count));
        if (index >= 4 * count) return Fault::kIndexTooLarge;
        move = make_move(chess::MoveType::kPromotion, from, chess::nth_square(targets, index / 4), index % 4);
        return Fault::kNone;
    }
    const unsigned index = bits.take(index_bits(count));
    if (index >= count) return Fault::kIndexTooLarge;
    const unsigned to = chess::nth_square(targets, index);
    const bool passing = to == position.ep_square;
    move = make_move(passing ? chess::MoveType::kEnPassant : chess::MoveType::kNormal, from, to);
    return Fault::kNone;
}

[[nodiscard]] inline Fault read_king_move(EntryBits& bits, const chess::Position& position, unsigned from,
                                          chess::Move& move) {
    const Bitboard targets = destinations(position, chess::kKing, from);
    const unsigned count = chess::count_squares(targets);
    const unsigned rights = own_castling(position);
    const unsigned all = count + (rights & 1) + (rights >> 1);
    const unsigned index = bits.take(index_bits(all));
    if (index >= all) return Fault::kIndexTooLarge;
    if (index < count) {
        move = make_move(chess::MoveType::kNormal, from, chess::nth_square(targets, index));
        return Fault::kNone;
    }
    const bool queen_side = index == count && (rights & 2) != 0;
    const unsigned base = position.side == chess::kWhite ? 0 : 56;
    move = make_move(chess::MoveType::kCastling, base + chess::kE1, base + (queen_side ? chess::kA1 : chess::kH1));
    return Fault::kNone;
}

[[nodiscard]] inline Fault read_move(EntryBits& bits, const chess::Position& position, chess::Move& move) {
    const Bitboard own = position.colours[position.side];
    const unsigned count = chess::count_squares(own);
    const unsigned piece = bits.take(index_bits(count));
    if (piece >= count) return Fault::kIndexTooLarge;
    const unsigned from = chess::nth_square(own, piece);
    const unsigned index = chess::squares_before(position.occupied(), from);
    const unsigned type = chess::nibble_at(position.pieces, index) >> 1;
    if (type == chess::kPawn) return read_pawn_move(bits, position, from, move);
    if (type == chess::kKing) return read_king_move(bits, position, from, move);
    const Bitboard targets = destinations(position, type, from);
    const unsigned targets_count = chess::count_squares(targets);
    const unsigned target = bits.take(index_bits(targets_count));
    if (target >= targets_count) return Fault::kIndexTooLarge;
    move = make_move(chess::MoveType::kNormal, from, chess::nth_square(targets, target));
    return Fault::kNone;
}

// Groups of five bits, the lowest first: 'another group follows', then four bits of the value.
[[nodiscard]] inline Fault read_score(EntryBits& bits, std::int16_t previous, std::int16_t& score) {
    unsigned value = 0;
    for (unsigned shift = 0; shift < 16; shift += 4) {
        const unsigned group = bits.take(5);
        value |= (group & 15) << shift;
        if ((group & 16) == 0) {
            score = static_cast<std::int16_t>(unzigzag(static_cast<std::uint16_t>(value)) - previous);
            return Fault::kNone;
        }
    }
    return Fault::kScoreTooLong;
}

// One entry of the move text: plays the previous entry's move, then reads what is recorded.
[[nodiscard]] inline Fault read_follower(ChunkState& state) {
    chess::Entry& entry = state.entry;
    const Fault played = as_fault(chess::play(entry.position, entry.move));
    if (played != Fault::kNone) return played;
    EntryBits bits(state.payload, state.bit);
    chess::Move move;
    std::int16_t score = 0;
    Fault fault = read_move(bits, entry.position, move);
    if (fault == Fault::kNone) fault = read_score(bits, entry.score, score);
    state.bit += bits.used();
    if (state.bit > 8 * std::uint64_t{state.payload.size()}) return Fault::kPastTheEnd;
    if (fault != Fault::kNone) return fault;
    entry.move = move;
    entry.score = score;
    entry.ply = static_cast<std::uint16_t>(entry.ply + 1);
    entry.result = static_cast<std::int8_t>(-entry.result);
    return Fault::kNone;
}

// Steps to the next entry; false at the end of the payload or at a fault. After either it stays false.
[[nodiscard]] inline bool next_entry(ChunkState& state) {
    if (state.fault != Fault::kNone) return false;
    if (state.followers != 0) {
        ++state.number;
        --state.followers;
        state.fault = read_follower(state);
        return state.fault == Fault::kNone;
    }
    const std::uint64_t begin = (state.bit + 7) / 8;
    if (state.payload.size() < begin + kSmallestChain) return false;
    const std::uint8_t* bytes = state.payload.data() + begin;
    state.stem = begin;
    state.number = 0;
    state.fault = read_stem(bytes, state.entry);
    if (state.fault != Fault::kNone) return false;
    ++state.chains;
    state.followers = load_big_endian16(bytes + kStemBytes);
    state.bit = 8 * (begin + kSmallestChain);
    return true;
}

// Decodes up to `capacity` entries; fewer only at the end of the payload or at a fault.
inline std::size_t read_records(ChunkState& state, chess::Record* records, std::size_t capacity) {
    std::size_t count = 0;
    while (count < capacity && next_entry(state)) records[count++] = chess::make_record(state.entry);
    return count;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::binpack
