#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "chess/native/files/walk.h"
#include "chess/native/make_record.h"
#include "chess/native/record.h"

// Walks of formats whose units are records of one size, and what all walks have in common.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

template <class Number>
[[nodiscard]] inline Number load(const std::uint8_t* bytes) {  // little endian
    Number number;
    std::memcpy(&number, bytes, sizeof number);
    return number;
}

inline bool stop(WalkState& state, const char* fault, bool cut = false) {
    state.fault = fault;
    state.cut = cut;
    return false;
}

// The ply of a move number of a FEN, and the other way round.
[[nodiscard]] inline std::uint16_t ply_of(unsigned move_number, unsigned side) {
    return static_cast<std::uint16_t>(2 * (move_number == 0 ? 0 : move_number - 1) + side);
}

// The move number of a FEN; 0 if it is unknown.
[[nodiscard]] inline std::uint16_t number_of(const Entry& entry) {
    return static_cast<std::uint16_t>((entry.lacks & kPlyPart) != 0 ? 0 : entry.ply / 2 + 1);
}

// What is wrong with a move number; null if nothing is. `needed`: EntryPart, of what a filter needs.
[[nodiscard]] inline const char* number_fault(unsigned move_number, unsigned needed) {
    if (move_number > 32768) return "the move number is beyond 32768";
    if (move_number == 0 && (needed & kPlyPart) != 0)
        return "the move number is 0: no ply is known, and a filter needs it";
    return nullptr;
}

// White's score as the mover's, or the other way round. The mark of no score has no side, and programs that turn it
// write its negative. False if that is no 16-bit number.
[[nodiscard]] inline bool turn_score(std::int16_t white, unsigned side, std::int16_t& score) {
    score = side == kWhite || white == kNoScore ? white : static_cast<std::int16_t>(-white);
    return side == kWhite || white != -32768;
}

// What is wrong with the position of the entry that was decoded, if that is looked for.
[[nodiscard]] inline Illegal judged(const WalkState& state) {
    if (state.demands.on_illegal == OnIllegal::kKeep) return Illegal::kNone;
    return find_illegal(state.entry.position);
}

// Whether the walk goes on behind what is illegal or, with kNone, can't be read.
[[nodiscard]] inline bool may_leave_out(const Demands& demands, Illegal illegal) {
    return illegal == Illegal::kNone ? demands.leaves_out_damage : demands.on_illegal == OnIllegal::kLeaveOut;
}

// Leaves out the unit that begins where the walk stands and ends at `end`, and goes on there; or stops at its fault.
// Gives back whether the walk goes on.
[[nodiscard, gnu::noinline, gnu::cold]] inline bool leave_out_unit(WalkState& state, Illegal illegal,
                                                                   std::string_view reason, std::uint64_t end,
                                                                   std::uint64_t entries = 1) {
    if (!may_leave_out(state.demands, illegal)) {
        state.fault = reason;
        return false;
    }
    state.left_out.add_unit(illegal, reason, state.at, state.units, {state.at, end, state.units}, entries);
    state.at = end;
    ++state.units;
    return true;
}

inline constexpr const char* kBadScore = "a score of -32768 has no opposite";

// `kDecode(bytes, needed, entry)`: what is wrong with a record; null if nothing is.
template <std::size_t kBytes, auto kDecode>
[[nodiscard]] inline bool next_record(WalkState& state) {
    while (true) {
        const std::size_t left = state.bytes.size() - state.at;
        if (left < kBytes || !state.fault.empty()) [[unlikely]] {
            if (left == 0 || !state.fault.empty()) return false;
            state.cut = !leave_out_unit(state, Illegal::kNone, "the data end within a record", state.bytes.size());
            return false;
        }
        const char* wrong = kDecode(state.bytes.data() + state.at, state.demands.needed, state.entry);
        const Illegal illegal = wrong == nullptr ? judged(state) : meaning_of(wrong);
        if (wrong == nullptr && illegal == Illegal::kNone) [[likely]] {
            state.at += kBytes;
            ++state.units;
            return true;
        }
        if (!leave_out_unit(state, illegal, wrong != nullptr ? wrong : words_of(illegal), state.at + kBytes))
            return false;
    }
}

template <auto kNext, bool kChecks>
inline std::size_t read_some(WalkState& state, Record* out, std::size_t capacity) {
    std::size_t count = 0;
    for (; count < capacity && kNext(state); ++count) write_record<kChecks>(state.entry, out[count]);
    return count;
}

template <auto kNext>
inline std::size_t read_entries(WalkState& state, Record* out, std::size_t capacity, bool checks) {
    return checks ? read_some<kNext, true>(state, out, capacity) : read_some<kNext, false>(state, out, capacity);
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
