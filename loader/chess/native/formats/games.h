#pragma once

#include <cstdint>

#include "chess/native/board/destinations.h"
#include "chess/native/formats/record_walk.h"

// Walks through games: a header, then for each position the move played in it and White's score, two bytes each, then
// four zero bytes.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

inline constexpr const char* kNoPiecesMove = "a move that no piece can make there";

[[nodiscard]] inline const char* words_of(MoveFault fault) {
    switch (fault) {
        case MoveFault::kNone: return nullptr;
        case MoveFault::kTakesKing: return "a move that takes a king";
        case MoveFault::kBadCastling: return "castling without king and rook in place and a free way";
        default: return "a move that can't be played";
    }
}

[[nodiscard]] inline const char* play_sound(Position& position, Move move) {
    if (!is_move_of_a_piece(position, move)) [[unlikely]]
        return kNoPiecesMove;
    return words_of(play<Variant::kChess960>(position, move));
}

// What play_sound would say; the move is not made.
[[nodiscard]] inline const char* why_not_sound(const Position& position, Move move) {
    if (!is_move_of_a_piece(position, move)) [[unlikely]]
        return kNoPiecesMove;
    if (move.type() != MoveType::kCastling) [[likely]]
        return words_of(find_fault(position, move));
    Position next = position;
    return words_of(play_castling960(next, move));
}

// Moves of the game whose header begins here, up to its end or that of the bytes.
[[nodiscard, gnu::noinline, gnu::cold]] inline std::uint64_t moves_behind(const WalkState& state, std::size_t header) {
    std::uint64_t moves = 0;
    std::size_t at = state.at + header;
    for (; at + 4 <= state.bytes.size() && load<std::uint32_t>(state.bytes.data() + at) != 0; at += 4) ++moves;
    return moves;
}

// `Format`: kHeader, its bytes; read_header(bytes, needed, entry, white_result) and read_move(word, position, move),
// which give what is wrong, null if nothing is.
template <class Format>
[[nodiscard]] inline bool next_of_game(WalkState& state) {
    if (!state.fault.empty()) [[unlikely]]
        return false;
    while (true) {
        const std::uint8_t* bytes = state.bytes.data() + state.at;
        const std::size_t left = state.bytes.size() - state.at;
        if (!state.inside) {
            if (left == 0) return false;
            if (left < Format::kHeader) return stop(state, "the data end within the header of a game", true);
            const char* wrong = Format::read_header(bytes, state.demands.needed, state.entry, state.white_result);
            const Illegal illegal = wrong != nullptr       ? meaning_of(wrong)
                                    : !state.demands.every ? judged(state)
                                                           : Illegal::kNone;
            if (wrong != nullptr || illegal != Illegal::kNone) [[unlikely]] {
                if (!leaves_out(state, illegal, moves_behind(state, Format::kHeader))) {
                    return stop(state, wrong != nullptr ? wrong : words_of(illegal));
                }
                state.at += Format::kHeader + 4 * moves_behind(state, Format::kHeader);
            } else {
                state.next = state.entry.position;
                state.at += Format::kHeader;
            }
            state.number = 0;
            state.inside = true;
            ++state.units;
            continue;
        }
        if (left < 4) [[unlikely]]
            return stop(state, "the data end within a game", true);
        const auto pair = load<std::uint32_t>(bytes);
        if (pair == 0) [[unlikely]] {
            state.inside = false;
            state.at += 4;
            continue;
        }
        Entry& entry = state.entry;
        entry.position = state.next;
        const unsigned side = entry.position.side;
        const char* wrong = Format::read_move(static_cast<std::uint16_t>(pair), entry.position, entry.move);
        if (wrong == nullptr) [[likely]]
            wrong = play_sound(state.next, entry.move);
        if (wrong == nullptr && !turn_score(static_cast<std::int16_t>(pair >> 16), side, entry.score)) [[unlikely]]
            wrong = kBadScore;
        if (wrong != nullptr) [[unlikely]]
            return stop(state, wrong);
        const Illegal illegal = state.demands.every ? judged(state) : Illegal::kNone;
        if (illegal != Illegal::kNone && !leaves_out(state, illegal)) [[unlikely]]
            return stop(state, words_of(illegal));
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
