#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "chess/native/files/walk.h"
#include "chess/native/make_record.h"
#include "chess/native/record.h"

// Walks through files of records of one size, and helpers for all walks.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

// Loads a little-endian number.
template <class Number>
[[nodiscard]] inline Number load(const std::uint8_t* bytes) {
    Number number;
    std::memcpy(&number, bytes, sizeof number);
    return number;
}

// Ends the walk with a fault, and returns false for its caller to return. `truncated`: the fault is only that the bytes
// end too early.
inline bool stop(WalkState& state, const char* fault, bool truncated = false) {
    state.fault = fault;
    state.truncated = truncated;
    return false;
}

// Returns the ply of a FEN's move number, which counts from 1; 0 is unknown and gives the first ply.
[[nodiscard]] inline std::uint16_t ply_of(unsigned move_number, unsigned side) {
    return static_cast<std::uint16_t>(2 * (move_number == 0 ? 0 : move_number - 1) + side);
}

// Returns the move number for a FEN; 0 if it is unknown.
[[nodiscard]] inline std::uint16_t move_number_of(const Entry& entry) {
    return static_cast<std::uint16_t>((entry.missing_parts & kPlyPart) != 0 ? 0 : entry.ply / 2 + 1);
}

// Returns what is wrong with a move number; null if nothing is. `required_parts`: a mask of EntryPart that filters
// need.
[[nodiscard]] inline const char* find_move_number_problem(unsigned move_number, unsigned required_parts) {
    if (move_number > 32768) return "the move number is beyond 32768";
    if (move_number == 0 && (required_parts & kPlyPart) != 0)
        return "the move number is 0: no ply is known, and a filter needs it";
    return nullptr;
}

// Converts a score from White's view to that of the side to move, or back: it is negated if Black is to move. kNoScore
// stays; but programs that do not know the mark negate it, so its negative becomes the mark again. Returns false if the
// negative is no 16-bit number.
[[nodiscard]] inline bool convert_score_view(std::int16_t score, unsigned side, std::int16_t& converted) {
    const bool keeps_sign = side == kWhite || score == kNoScore;
    converted = keeps_sign ? score : static_cast<std::int16_t>(-score);
    return side == kWhite || score != -32768;
}

// Returns what is illegal about the position that was decoded; kNone if legality is not checked.
[[nodiscard]] inline Illegal evaluate_legality(const WalkState& state) {
    if (state.options.on_illegal == OnIllegal::kKeep) return Illegal::kNone;
    return find_illegal(state.entry.position);
}

// Whether an illegal entry, or with kNone one that can't be read, is skipped. Otherwise the walk stops at it.
[[nodiscard]] inline bool can_skip(const ReadOptions& options, Illegal illegal) {
    return illegal == Illegal::kNone ? options.skips_damage : options.on_illegal == OnIllegal::kSkip;
}

// Skips the unit from the current offset to `end`, or stops at it, as the options say. Returns true if it was skipped
// and the walk continues at `end`.
[[nodiscard, gnu::noinline, gnu::cold]] inline bool skip_unit_or_stop(WalkState& state, Illegal illegal,
                                                                      std::string_view reason, std::uint64_t end,
                                                                      std::uint64_t entries = 1) {
    if (!can_skip(state.options, illegal)) {
        state.fault = reason;
        return false;
    }
    state.skipped.add_unit(illegal, reason, state.offset, state.units, {state.offset, end, state.units}, entries);
    state.offset = end;
    ++state.units;
    return true;
}

inline constexpr const char* kBadScore = "a score of -32768 has no opposite";

// Reads the next good record into state.entry. Returns false at the end and at a fault.
// `kDecode(bytes, required_parts, entry)` decodes a record and returns what is wrong with it, or null.
template <std::size_t kBytes, auto kDecode>
[[nodiscard]] inline bool next_record(WalkState& state) {
    while (true) {
        const std::size_t remaining = state.bytes.size() - state.offset;
        if (remaining < kBytes || !state.fault.empty()) [[unlikely]] {
            if (remaining == 0 || !state.fault.empty()) return false;
            state.truncated =
                !skip_unit_or_stop(state, Illegal::kNone, "the data end within a record", state.bytes.size());
            return false;
        }
        const char* problem = kDecode(state.bytes.data() + state.offset, state.options.required_parts, state.entry);
        const Illegal illegal = problem == nullptr ? evaluate_legality(state) : classify_problem(problem);
        if (problem == nullptr && illegal == Illegal::kNone) [[likely]] {
            state.offset += kBytes;
            ++state.units;
            return true;
        }
        if (!skip_unit_or_stop(state, illegal, problem != nullptr ? problem : describe(illegal), state.offset + kBytes))
            return false;
    }
}

// Reads up to `capacity` records; fewer only at the end or at a fault. Returns how many.
template <auto kNext, bool kChecks>
inline std::size_t read_records_of(WalkState& state, Record* out, std::size_t capacity) {
    std::size_t count = 0;
    for (; count < capacity && kNext(state); ++count) write_record<kChecks>(state.entry, out[count]);
    return count;
}

template <auto kNext>
inline std::size_t read_entries(WalkState& state, Record* out, std::size_t capacity, bool checks) {
    return checks ? read_records_of<kNext, true>(state, out, capacity)
                  : read_records_of<kNext, false>(state, out, capacity);
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
