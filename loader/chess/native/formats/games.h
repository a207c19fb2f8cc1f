#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "chess/native/formats/record_walk.h"
#include "chess/native/formats/sound_moves.h"

// Walks through games: a header, then for each position the move played in it and White's score, two bytes each, then
// four zero bytes.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

// Where the game whose header begins at `begin` ends, its four zero bytes included, or the bytes do.
[[nodiscard, gnu::noinline, gnu::cold]] inline std::uint64_t end_of_game(std::span<const std::uint8_t> bytes,
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
        wrong = play_sound(next, entry.move);
    if (wrong == nullptr && !turn_score(static_cast<std::int16_t>(pair >> 16), side, entry.score)) [[unlikely]]
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
    for (std::uint64_t at = state.at; at + 4 <= state.bytes.size(); at += 4) {
        const auto pair = load<std::uint32_t>(state.bytes.data() + at);
        if (pair == 0) return {};
        if (const char* wrong = read_pair<Format>(pair, next, entry)) return {wrong, at};
    }
    return {"the data end within a game", state.bytes.size(), true};
}

// Leaves out the game whose header begins where the walk stands, as leave_out_unit.
[[nodiscard, gnu::noinline, gnu::cold]] inline bool leave_out_game(WalkState& state, Illegal illegal,
                                                                   const GameFault& fault, std::size_t header) {
    if (!may_leave_out(state.demands, illegal)) return stop(state, fault.reason, fault.cut);
    const std::uint64_t end = end_of_game(state.bytes, state.at, header);
    const std::uint64_t moves = end - std::min(end, state.at + header);
    const bool has_end = moves >= 4 && moves % 4 == 0 && load<std::uint32_t>(state.bytes.data() + end - 4) == 0;
    state.left_out.add_unit(illegal, fault.reason, fault.offset, state.units, {state.at, end, state.units},
                            moves / 4 - (has_end ? 1 : 0));
    state.at = end;
    ++state.units;
    return true;
}

// Reads a game's header. Gives back false at the end, or at a fault.
template <class Format>
[[nodiscard]] inline bool begin_game(WalkState& state) {
    while (state.at != state.bytes.size()) {
        const char* wrong = nullptr;
        const bool cut = state.bytes.size() - state.at < Format::kHeader;
        if (cut) {
            wrong = "the data end within the header of a game";
        } else {
            wrong = Format::read_header(state.bytes.data() + state.at, state.demands.needed, state.entry,
                                        state.white_result);
        }
        const Illegal illegal = wrong != nullptr       ? meaning_of(wrong)
                                : !state.demands.every ? judged(state)
                                                       : Illegal::kNone;
        if (wrong != nullptr || illegal != Illegal::kNone) [[unlikely]] {
            const GameFault fault{wrong != nullptr ? wrong : words_of(illegal), state.at, cut};
            if (!leave_out_game(state, illegal, fault, Format::kHeader)) return false;
            continue;
        }
        state.next = state.entry.position;
        state.at += Format::kHeader;
        state.number = 0;
        if (state.demands.leaves_out_damage) [[unlikely]] {  // an entry that was given out can't be taken back
            const GameFault fault = find_game_fault<Format>(state);
            if (fault.reason != nullptr) {
                state.at -= Format::kHeader;
                if (!leave_out_game(state, Illegal::kNone, fault, Format::kHeader)) return false;
                continue;
            }
        }
        state.inside = true;
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
        if (!state.inside && !begin_game<Format>(state)) return false;
        if (state.bytes.size() - state.at < 4) [[unlikely]]
            return stop(state, "the data end within a game", true);
        const auto pair = load<std::uint32_t>(state.bytes.data() + state.at);
        if (pair == 0) [[unlikely]] {
            state.inside = false;
            state.at += 4;
            continue;
        }
        Entry& entry = state.entry;
        entry.position = state.next;
        const unsigned side = entry.position.side;
        if (const char* wrong = read_pair<Format>(pair, state.next, entry)) [[unlikely]]
            return stop(state, wrong);
        const Illegal illegal = state.demands.every ? judged(state) : Illegal::kNone;
        if (illegal != Illegal::kNone) [[unlikely]] {
            if (!may_leave_out(state.demands, illegal)) return stop(state, words_of(illegal));
            state.left_out.add_entry(illegal, words_of(illegal), state.at, state.units);
        }
        if (state.number != 0) entry.ply = one_more(entry.ply);
        entry.result = static_cast<std::int8_t>(side == kWhite ? state.white_result : -state.white_result);
        ++state.number;
        state.at += 4;
        if (illegal == Illegal::kNone) [[likely]]
            return true;
    }
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
