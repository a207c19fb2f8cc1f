#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "chess/formats/binpack/native/entries/candidates.h"
#include "chess/formats/binpack/native/entries/lane.h"
#include "chess/formats/binpack/native/entries/stem.h"
#include "chess/native/board/rules.h"
#include "chess/native/formats/pseudo_legal.h"

namespace sparsepool::binpack {

inline namespace SPARSEPOOL_ISA {

// The next 64 bits of the move text, the first in the highest place: an entry has 30 at most. What lies beyond the
// payload reads as zero.
[[nodiscard]] inline std::uint64_t load_text(std::span<const std::uint8_t> payload, std::uint64_t bit) {
    const std::uint64_t byte = bit >> 3;
    std::uint8_t tail[8] = {};
    const std::uint8_t* bytes = payload.data() + byte;
    if (byte + sizeof tail > payload.size()) [[unlikely]] {
        if (byte < payload.size()) std::memcpy(tail, bytes, payload.size() - byte);
        bytes = tail;
    }
    return load_big_endian(bytes) << (bit & 7);
}

// What is known of an entry between the phases of its decoding.
struct Reading {
    std::uint64_t text;  // its bits, less those used
    unsigned used;
    unsigned from;
    unsigned type;
    Bitboard targets;

    [[nodiscard]] unsigned take(unsigned count) {
        const auto bits = static_cast<unsigned>((text >> 1) >> (63 - count));
        text <<= count;
        used += count;
        return bits;
    }
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

// How decoding an entry ends: its bits are used up, and if there were fewer, that comes before anything else.
[[nodiscard]] inline Fault use_bits(ChunkState& state, const Reading& reading, Fault fault) {
    state.bit += reading.used;
    return state.bit > 8 * std::uint64_t{state.payload.size()} ? Fault::kPastTheEnd : fault;
}

// Phase 1: the next entry's position. Plays the previous move, or begins a chain, and then the entry is complete.
// As wide as a register: gcc 12 keeps narrower ones of two lanes in one word, and reading that waits for a store.
enum class Next : std::uint64_t { kNone, kWhole, kToRead, kLeftOut };

[[nodiscard, gnu::noinline]] inline Next read_first(ChunkState& state) {
    const std::uint64_t begin = (state.bit + 7) / 8;
    if (state.payload.size() < begin + kSmallestChain) return Next::kNone;
    const std::uint8_t* bytes = state.payload.data() + begin;
    state.stem = begin;
    state.entry_index = 0;
    state.fault = read_stem(bytes, state.entry);
    if (state.fault != Fault::kNone) return Next::kNone;
    ++state.chains;
    state.followers = load_big_endian16(bytes + kStemBytes);
    state.bit = 8 * (begin + kSmallestChain);
    return Next::kWhole;
}

// Whether the walk goes on behind the entry, which is illegal and counted then.
[[nodiscard, gnu::noinline, gnu::cold]] inline bool skip_or_stop(ChunkState& state, chess::Illegal illegal) {
    if (state.options.on_illegal == chess::OnIllegal::kSkip) {
        state.skipped->add_entry(illegal, describe(illegal), state.before + state.stem, state.entry_index);
        return true;
    }
    state.illegal = illegal;
    state.fault = Fault::kIllegal;
    return false;
}

[[nodiscard]] inline bool skip_chain(ChunkState& state, chess::Illegal illegal);

// What is illegal about a chain's first entry. Unless every entry is judged (`next_entry`), its position is.
[[nodiscard]] inline chess::Illegal judge_first(const ChunkState& state) {
    chess::Illegal illegal = chess::Illegal::kNone;
    if (state.options.on_illegal != chess::OnIllegal::kKeep && !state.options.every_position)
        illegal = chess::find_illegal(state.entry.position);
    const bool has_fault =
        illegal == chess::Illegal::kNone && state.options.checks_moves && find_move_problem(state.entry) != nullptr;
    return has_fault ? chess::Illegal::kMove : illegal;
}

// A chain that begins with what is illegal is left out whole. Behind a move that no piece can make its text can't be
// read: then the chain must have no other entry.
[[nodiscard, gnu::noinline]] inline Next begin_chain(ChunkState& state) {
    while (read_first(state) == Next::kWhole) {
        const chess::Illegal illegal = judge_first(state);
        if (illegal == chess::Illegal::kNone) [[likely]]
            return Next::kWhole;
        if (illegal == chess::Illegal::kMove && state.followers != 0) {
            state.illegal = illegal;
            state.fault = Fault::kIllegal;
            return Next::kNone;
        }
        if (!skip_chain(state, illegal)) return Next::kNone;
    }
    return Next::kNone;
}

// Whether a move that was read from a chain's text can be one that no piece can make: others are of its destinations.
[[nodiscard, gnu::always_inline]] inline bool may_be_impossible(const chess::Entry& entry) {
    return (entry.move.type() == chess::MoveType::kCastling) |
           ((entry.position.kings() & chess::bit_of(entry.move.to())) != 0);
}

// An entry with others behind it: without its move their text can't be read.
[[nodiscard, gnu::noinline]] inline Next judge_middle(ChunkState& state) {
    if (!state.options.checks_moves || find_move_problem(state.entry) == nullptr) return Next::kWhole;
    state.illegal = chess::Illegal::kMove;
    state.fault = Fault::kIllegal;
    return Next::kNone;
}

// The last entry of a chain is read: nothing plays its move.
[[nodiscard, gnu::noinline]] inline Next end_chain(ChunkState& state) {
    if (!state.options.checks_moves || find_move_problem(state.entry) == nullptr) return Next::kWhole;
    return skip_or_stop(state, chess::Illegal::kMove) ? Next::kLeftOut : Next::kNone;
}

[[nodiscard, gnu::always_inline]] inline Next begin_entry(ChunkState& state) {
    if (state.fault != Fault::kNone) [[unlikely]]
        return Next::kNone;
    if (state.followers == 0) [[unlikely]]
        return begin_chain(state);
    ++state.entry_index;
    --state.followers;
    const chess::MoveFault fault = chess::play(state.entry.position, state.entry.move);
    if (fault == chess::MoveFault::kNone) [[likely]]
        return Next::kToRead;
    state.fault = as_fault(fault);
    return Next::kNone;
}

// Phase 2: which piece moves, and where it may go.
[[nodiscard, gnu::always_inline]] inline Next find_piece(ChunkState& state, Reading& reading) {
    const chess::Position& position = state.entry.position;
    reading.text = load_text(state.payload, state.bit);
    reading.used = 0;
    const Bitboard own = position.of_colour(position.side);
    const unsigned count = chess::count_squares(own);
    const unsigned index = reading.take(index_bits(count));
    if (index >= count) [[unlikely]] {
        state.fault = use_bits(state, reading, Fault::kIndexTooLarge);
        return Next::kNone;
    }
    reading.from = chess::nth_square(own, index);
    reading.type = position.type_at(reading.from);
    reading.targets = destinations(position, own, reading.type, reading.from);
    return Next::kToRead;
}

// Promotions and castling: of a hundred moves not two.
[[nodiscard, gnu::noinline]] inline chess::Move rare_move(const chess::Position& position, const Reading& reading,
                                                          unsigned index, unsigned count) {
    if (reading.type == chess::kPawn) {
        const unsigned to = chess::nth_square(reading.targets, index / 4);
        return encode_move(chess::MoveType::kPromotion, reading.from, to, index % 4);
    }
    const bool queen_side = index == count && (own_castling(position) & 2) != 0;
    const unsigned base = position.side == chess::kWhite ? 0 : 56;
    return encode_move(chess::MoveType::kCastling, base + chess::kE1, base + (queen_side ? chess::kA1 : chess::kH1));
}

[[nodiscard]] inline Fault read_target(const chess::Position& position, Reading& reading, chess::Move& move) {
    const bool pawn = reading.type == chess::kPawn;
    const bool promotes = pawn & chess::promotes_next(position.side, reading.from);
    const unsigned rights = own_castling(position) & static_cast<unsigned>(chess::kMovements.data()[reading.type].king);
    const unsigned count = chess::count_squares(reading.targets);
    const unsigned all = (count << (promotes ? 2 : 0)) + (rights & 1) + (rights >> 1);
    const unsigned index = reading.take(index_bits(all));
    if (index >= all) [[unlikely]]
        return Fault::kIndexTooLarge;
    if (promotes | (index >= count)) [[unlikely]] {
        move = rare_move(position, reading, index, count);
        return Fault::kNone;
    }
    const unsigned to = chess::nth_square(reading.targets, index);
    const bool passing = pawn & (to == position.ep_square);
    move = encode_move(passing ? chess::MoveType::kEnPassant : chess::MoveType::kNormal, reading.from, to);
    return Fault::kNone;
}

// Groups of five bits, the lowest first: 'another group follows', then four bits of the value.
[[nodiscard]] inline Fault read_score(Reading& reading, std::int16_t previous, std::int16_t& score) {
#if defined(__BMI2__)
    // All four groups at once, without a branch on how many there are.
    const std::uint64_t groups = reading.text >> 44;
    const auto more = static_cast<unsigned>(chess::extract_bits(groups, 0b1000'0100'0010'0001'0000));
    const auto nibbles = static_cast<unsigned>(chess::extract_bits(groups, 0b0111'1011'1101'1110'1111));
    const unsigned used = 1 + static_cast<unsigned>(__builtin_clz(~(more << 28)));
    const unsigned present = nibbles & (0xFFFF0000U >> (4 * used));
    const unsigned bytes = (present << 8 | present >> 8) & 0xFFFF;
    const unsigned value = (bytes << 4 & 0xF0F0) | (bytes >> 4 & 0x0F0F);
    reading.used += used == 5 ? 20 : 5 * used;
    if (used == 5) [[unlikely]]
        return Fault::kScoreTooLong;
#else
    unsigned value = 0;
    for (unsigned shift = 0, more = 16; more != 0; shift += 4) {
        if (shift == 16) return Fault::kScoreTooLong;
        const unsigned group = reading.take(5);
        value |= (group & 15) << shift;
        more = group & 16;
    }
#endif
    score = static_cast<std::int16_t>(unzigzag(static_cast<std::uint16_t>(value)) - previous);
    return Fault::kNone;
}

// Phase 3: where it goes, and the score.
[[nodiscard, gnu::always_inline]] inline Next finish_entry(ChunkState& state, Reading& reading) {
    chess::Entry& entry = state.entry;
    chess::Move move;
    std::int16_t score = 0;
    Fault fault = read_target(entry.position, reading, move);
    if (fault == Fault::kNone) [[likely]]
        fault = read_score(reading, entry.score, score);
    state.fault = use_bits(state, reading, fault);
    if (state.fault != Fault::kNone) [[unlikely]]
        return Next::kNone;
    entry.move = move;
    entry.score = score;
    entry.ply = chess::saturating_increment(entry.ply);
    entry.result = static_cast<std::int8_t>(-entry.result);
    if (state.followers == 0) [[unlikely]]
        return end_chain(state);
    if (may_be_impossible(entry)) [[unlikely]]
        return judge_middle(state);
    return Next::kWhole;
}

// Steps to the next entry that is not left out for its move.
[[nodiscard]] inline bool read_next(ChunkState& state) {
    Next next = Next::kLeftOut;
    while (next == Next::kLeftOut) {
        Reading reading;
        next = begin_entry(state);
        if (next == Next::kToRead) next = find_piece(state, reading);
        if (next == Next::kToRead) next = finish_entry(state, reading);
    }
    return next == Next::kWhole;
}

[[nodiscard]] inline bool skip_chain(ChunkState& state, chess::Illegal illegal) {
    bool goes_on = skip_or_stop(state, illegal);
    const bool checks_moves = std::exchange(state.options.checks_moves, false);  // none is counted twice
    while (goes_on && state.followers != 0) goes_on = read_next(state) && skip_or_stop(state, illegal);
    state.options.checks_moves = checks_moves;
    return goes_on;
}

// Steps to the next entry; false at the end of the payload or at a fault. After either it stays false.
[[nodiscard]] inline bool next_entry(ChunkState& state) {
    while (read_next(state)) {
        if (state.options.on_illegal == chess::OnIllegal::kKeep || !state.options.every_position) return true;
        const chess::Illegal illegal = chess::find_illegal(state.entry.position);
        if (illegal == chess::Illegal::kNone) [[likely]]
            return true;
        if (!skip_or_stop(state, illegal)) return false;
    }
    return false;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::binpack
