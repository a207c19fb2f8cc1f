#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "chess/native/formats/pseudo_legal.h"
#include "chess/native/formats/record_walk.h"

// Walks through games of viriformat and montyvalue:
//
//     header                      Format::kHeader bytes: the first position and the result
//     u16 move, i16 score         for each position, White's score
//     four zero bytes             the end
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

inline constexpr std::size_t kPairBytes = 4;  // a move and a score

// Returns where the game whose header begins at `begin` ends, behind its four zero bytes; the size if it has none.
[[nodiscard, gnu::noinline, gnu::cold]] inline std::uint64_t find_game_end(std::span<const std::uint8_t> bytes,
                                                                           std::uint64_t begin,
                                                                           std::size_t header_bytes) {
    for (std::uint64_t offset = begin + header_bytes; offset + kPairBytes <= bytes.size(); offset += kPairBytes) {
        if (load<std::uint32_t>(bytes.data() + offset) == 0) return offset + kPairBytes;
    }
    return bytes.size();
}

// Decodes a pair of move (low 16 bits) and score, and plays the move. Returns what is wrong, or null.
template <class Format>
[[nodiscard]] inline const char* read_pair(std::uint32_t pair, Position& next, Entry& entry) {
    const unsigned side = next.side;
    const auto move_word = static_cast<std::uint16_t>(pair);
    const auto white_score = static_cast<std::int16_t>(pair >> 16);
    const char* problem = Format::read_move(move_word, next, entry.move);
    if (problem == nullptr) [[likely]]
        problem = play_pseudo_legal(next, entry.move);
    if (problem == nullptr && !convert_score_view(white_score, side, entry.score)) [[unlikely]]
        problem = kBadScore;
    return problem;
}

struct GameFault {
    const char* reason = nullptr;
    std::uint64_t offset = 0;
    bool truncated = false;  // only that the bytes end too early
};

// Returns what is wrong with the moves of a game whose header has been read: from state.next and state.offset on.
template <class Format>
[[nodiscard, gnu::noinline]] inline GameFault find_game_fault(const WalkState& state) {
    Position next = state.next;
    Entry entry;
    for (std::uint64_t offset = state.offset; offset + kPairBytes <= state.bytes.size(); offset += kPairBytes) {
        const auto pair = load<std::uint32_t>(state.bytes.data() + offset);
        if (pair == 0) return {};
        if (const char* problem = read_pair<Format>(pair, next, entry)) return {problem, offset};
    }
    return {"the data end within a game", state.bytes.size(), true};
}

// Skips the game whose header begins at the current offset, or stops at it, as skip_unit_or_stop.
[[nodiscard, gnu::noinline, gnu::cold]] inline bool skip_game_or_stop(WalkState& state, Illegal illegal,
                                                                      const GameFault& fault,
                                                                      std::size_t header_bytes) {
    if (!can_skip(state.options, illegal)) return stop(state, fault.reason, fault.truncated);
    const std::uint64_t end = find_game_end(state.bytes, state.offset, header_bytes);
    const std::uint64_t pair_bytes = end - std::min(end, state.offset + header_bytes);
    const bool has_end = pair_bytes >= kPairBytes && pair_bytes % kPairBytes == 0 &&
                         load<std::uint32_t>(state.bytes.data() + end - kPairBytes) == 0;
    const std::uint64_t num_moves = pair_bytes / kPairBytes - (has_end ? 1 : 0);
    state.skipped.add_unit(illegal, fault.reason, fault.offset, state.units, {state.offset, end, state.units},
                           num_moves);
    state.offset = end;
    ++state.units;
    return true;
}

struct HeaderProblem {
    Illegal illegal = Illegal::kNone;
    GameFault fault;  // without a reason: the header is good
};

// Decodes the header at the current offset into state.entry, and checks its position.
template <class Format>
[[nodiscard]] inline HeaderProblem read_game_header(WalkState& state) {
    if (state.bytes.size() - state.offset < Format::kHeader) [[unlikely]] {
        const char* reason = "the data end within the header of a game";
        return {classify_problem(reason), {reason, state.offset, true}};
    }
    const char* problem = Format::read_header(state.bytes.data() + state.offset, state.options.required_parts,
                                              state.entry, state.white_result);
    if (problem != nullptr) [[unlikely]]
        return {classify_problem(problem), {problem, state.offset}};
    if (state.options.every_position) return {};  // next_of_game checks the first position, too
    const Illegal illegal = evaluate_legality(state);
    if (illegal == Illegal::kNone) [[likely]]
        return {};
    return {illegal, {describe(illegal), state.offset}};
}

// Begins the next good game: reads its header, and with skips_damage also all of its moves, since an entry that has
// been returned can't be taken back. Returns false at the end or at a fault.
template <class Format>
[[nodiscard]] inline bool begin_game(WalkState& state) {
    while (state.offset != state.bytes.size()) {
        const HeaderProblem problem = read_game_header<Format>(state);
        if (problem.fault.reason != nullptr) [[unlikely]] {
            if (!skip_game_or_stop(state, problem.illegal, problem.fault, Format::kHeader)) return false;
            continue;
        }
        state.next = state.entry.position;
        state.offset += Format::kHeader;
        state.entry_index = 0;
        if (state.options.skips_damage) [[unlikely]] {
            const GameFault fault = find_game_fault<Format>(state);
            if (fault.reason != nullptr) {
                state.offset -= Format::kHeader;
                if (!skip_game_or_stop(state, Illegal::kNone, fault, Format::kHeader)) return false;
                continue;
            }
        }
        state.in_game = true;
        ++state.units;
        return true;
    }
    return false;
}

// Reads the next good entry of the games into state.entry. Returns false at the end and at a fault.
//
// `Format` has kHeader, the header's bytes; read_header(bytes, required_parts, entry, white_result); and
// read_move(word, position, move). Both return what is wrong, or null.
template <class Format>
[[nodiscard]] inline bool next_of_game(WalkState& state) {
    if (!state.fault.empty()) [[unlikely]]
        return false;
    while (true) {
        if (!state.in_game && !begin_game<Format>(state)) return false;
        if (state.bytes.size() - state.offset < kPairBytes) [[unlikely]]
            return stop(state, "the data end within a game", true);
        const auto pair = load<std::uint32_t>(state.bytes.data() + state.offset);
        if (pair == 0) [[unlikely]] {
            state.in_game = false;
            state.offset += kPairBytes;
            continue;
        }
        Entry& entry = state.entry;
        entry.position = state.next;
        const unsigned side = entry.position.side;
        if (const char* problem = read_pair<Format>(pair, state.next, entry)) [[unlikely]]
            return stop(state, problem);
        const Illegal illegal = state.options.every_position ? evaluate_legality(state) : Illegal::kNone;
        if (illegal != Illegal::kNone) [[unlikely]] {
            if (!can_skip(state.options, illegal)) return stop(state, describe(illegal));
            state.skipped.add_entry(illegal, describe(illegal), state.offset, state.units);
        }
        if (state.entry_index != 0) entry.ply = saturating_increment(entry.ply);
        entry.result = static_cast<std::int8_t>(side == kWhite ? state.white_result : -state.white_result);
        ++state.entry_index;
        state.offset += kPairBytes;
        if (illegal == Illegal::kNone) [[likely]]
            return true;
    }
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
