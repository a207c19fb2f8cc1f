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
[[nodiscard]] inline std::uint16_t move_number_of(const Entry& entry) {
    return static_cast<std::uint16_t>((entry.missing_parts & kPlyPart) != 0 ? 0 : entry.ply / 2 + 1);
}

// What is wrong with a move number; null if nothing is. `needed`: EntryPart, of what a filter needs.
[[nodiscard]] inline const char* find_move_number_problem(unsigned move_number, unsigned required_parts) {
    if (move_number > 32768) return "the move number is beyond 32768";
    if (move_number == 0 && (required_parts & kPlyPart) != 0)
        return "the move number is 0: no ply is known, and a filter needs it";
    return nullptr;
}

// White's score as the mover's, or the other way round. The mark of no score has no side, and programs that turn it
// write its negative. False if that is no 16-bit number.
[[nodiscard]] inline bool convert_score_view(std::int16_t white, unsigned side, std::int16_t& score) {
    score = side == kWhite || white == kNoScore ? white : static_cast<std::int16_t>(-white);
    return side == kWhite || white != -32768;
}

// What is wrong with the position of the entry that was decoded, if that is looked for.
[[nodiscard]] inline Illegal evaluate_legality(const WalkState& state) {
    if (state.options.on_illegal == OnIllegal::kKeep) return Illegal::kNone;
    return find_illegal(state.entry.position);
}

// Whether the walk goes on behind what is illegal or, with kNone, can't be read.
[[nodiscard]] inline bool can_skip(const ReadOptions& options, Illegal illegal) {
    return illegal == Illegal::kNone ? options.skips_damage : options.on_illegal == OnIllegal::kSkip;
}

// Leaves out the unit that begins where the walk stands and ends at `end`, and goes on there; or stops at its fault.
// Gives back whether the walk goes on.
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

// `kDecode(bytes, needed, entry)`: what is wrong with a record; null if nothing is.
template <std::size_t kBytes, auto kDecode>
[[nodiscard]] inline bool next_record(WalkState& state) {
    while (true) {
        const std::size_t left = state.bytes.size() - state.offset;
        if (left < kBytes || !state.fault.empty()) [[unlikely]] {
            if (left == 0 || !state.fault.empty()) return false;
            state.cut = !skip_unit_or_stop(state, Illegal::kNone, "the data end within a record", state.bytes.size());
            return false;
        }
        const char* wrong = kDecode(state.bytes.data() + state.offset, state.options.required_parts, state.entry);
        const Illegal illegal = wrong == nullptr ? evaluate_legality(state) : classify_problem(wrong);
        if (wrong == nullptr && illegal == Illegal::kNone) [[likely]] {
            state.offset += kBytes;
            ++state.units;
            return true;
        }
        if (!skip_unit_or_stop(state, illegal, wrong != nullptr ? wrong : describe(illegal), state.offset + kBytes))
            return false;
    }
}

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
