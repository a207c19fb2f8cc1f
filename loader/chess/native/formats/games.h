#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "chess/native/formats/pseudo_legal.h"
#include "chess/native/formats/record_walk.h"

// Walks through games: a header, then for each position the move played in it and White's score, two bytes each, then
// four zero bytes.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

// Where the game whose header begins at `begin` ends, its four zero bytes included, or the bytes do.
[[nodiscard, gnu::noinline, gnu::cold]] inline std::uint64_t find_game_end(std::span<const std::uint8_t> bytes,
                                                                           std::uint64_t begin, std::size_t header) {
    for (std::uint64_t at = begin + header; at + 4 <= bytes.size(); at += 4) {
        if (load<std::uint32_t>(bytes.data() + at) == 0) return at + 4;
    }
    return bytes.size();
}

// What is read of a pair of move and score.
template <class Format>
[[nodiscard]] inline const char* read_pair(std::uint32_t pair, Position& next, Entry& entry) {
    const unsigned side = next.side;
    const char* wrong = Format::read_move(static_cast<std::uint16_t>(pair), next, entry.move);
    if (wrong == nullptr) [[likely]]
        wrong = play_pseudo_legal(next, entry.move);
    if (wrong == nullptr && !convert_score_view(static_cast<std::int16_t>(pair >> 16), side, entry.score)) [[unlikely]]
        wrong = kBadScore;
    return wrong;
}

struct GameFault {
    const char* reason = nullptr;
    std::uint64_t offset = 0;
    bool cut = false;  // only that the bytes end too early
};

// What is wrong with the moves of the game whose first position is `next` and whose moves begin where the walk stands.
template <class Format>
[[nodiscard, gnu::noinline]] inline GameFault find_game_fault(const WalkState& state) {
    Position next = state.next;
    Entry entry;
    for (std::uint64_t at = state.offset; at + 4 <= state.bytes.size(); at += 4) {
        const auto pair = load<std::uint32_t>(state.bytes.data() + at);
        if (pair == 0) return {};
        if (const char* wrong = read_pair<Format>(pair, next, entry)) return {wrong, at};
    }
    return {"the data end within a game", state.bytes.size(), true};
}

// Leaves out the game whose header begins where the walk stands, as skip_unit_or_stop.
[[nodiscard, gnu::noinline, gnu::cold]] inline bool skip_game_or_stop(WalkState& state, Illegal illegal,
                                                                      const GameFault& fault, std::size_t header) {
    if (!can_skip(state.options, illegal)) return stop(state, fault.reason, fault.cut);
    const std::uint64_t end = find_game_end(state.bytes, state.offset, header);
    const std::uint64_t moves = end - std::min(end, state.offset + header);
    const bool has_end = moves >= 4 && moves % 4 == 0 && load<std::uint32_t>(state.bytes.data() + end - 4) == 0;
    state.skipped.add_unit(illegal, fault.reason, fault.offset, state.units, {state.offset, end, state.units},
                           moves / 4 - (has_end ? 1 : 0));
    state.offset = end;
    ++state.units;
    return true;
}

// Reads a game's header. Gives back false at the end, or at a fault.
template <class Format>
[[nodiscard]] inline bool begin_game(WalkState& state) {
    while (state.offset != state.bytes.size()) {
        const char* wrong = nullptr;
        const bool cut = state.bytes.size() - state.offset < Format::kHeader;
        if (cut) {
            wrong = "the data end within the header of a game";
        } else {
            wrong = Format::read_header(state.bytes.data() + state.offset, state.options.required_parts, state.entry,
                                        state.white_result);
        }
        const Illegal illegal = wrong != nullptr                ? classify_problem(wrong)
                                : !state.options.every_position ? evaluate_legality(state)
                                                                : Illegal::kNone;
        if (wrong != nullptr || illegal != Illegal::kNone) [[unlikely]] {
            const GameFault fault{wrong != nullptr ? wrong : describe(illegal), state.offset, cut};
            if (!skip_game_or_stop(state, illegal, fault, Format::kHeader)) return false;
            continue;
        }
        state.next = state.entry.position;
        state.offset += Format::kHeader;
        state.entry_index = 0;
        if (state.options.skips_damage) [[unlikely]] {  // an entry that was given out can't be taken back
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

// `Format`: kHeader, its bytes; read_header(bytes, needed, entry, white_result) and read_move(word, position, move),
// which give what is wrong, null if nothing is.
template <class Format>
[[nodiscard]] inline bool next_of_game(WalkState& state) {
    if (!state.fault.empty()) [[unlikely]]
        return false;
    while (true) {
        if (!state.in_game && !begin_game<Format>(state)) return false;
        if (state.bytes.size() - state.offset < 4) [[unlikely]]
            return stop(state, "the data end within a game", true);
        const auto pair = load<std::uint32_t>(state.bytes.data() + state.offset);
        if (pair == 0) [[unlikely]] {
            state.in_game = false;
            state.offset += 4;
            continue;
        }
        Entry& entry = state.entry;
        entry.position = state.next;
        const unsigned side = entry.position.side;
        if (const char* wrong = read_pair<Format>(pair, state.next, entry)) [[unlikely]]
            return stop(state, wrong);
        const Illegal illegal = state.options.every_position ? evaluate_legality(state) : Illegal::kNone;
        if (illegal != Illegal::kNone) [[unlikely]] {
            if (!can_skip(state.options, illegal)) return stop(state, describe(illegal));
            state.skipped.add_entry(illegal, describe(illegal), state.offset, state.units);
        }
        if (state.entry_index != 0) entry.ply = saturating_increment(entry.ply);
        entry.result = static_cast<std::int8_t>(side == kWhite ? state.white_result : -state.white_result);
        ++state.entry_index;
        state.offset += 4;
        if (illegal == Illegal::kNone) [[likely]]
            return true;
    }
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
