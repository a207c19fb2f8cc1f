#pragma once

#include <cstdint>

#include "chess/native/board/destinations.h"
#include "chess/native/coding/walking.h"

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

// `Format`: kHeader, its bytes; read_header(bytes, needs_ply, entry, white_result) and read_move(word, position, move),
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
            if (const char* wrong = Format::read_header(bytes, state.needs_ply, state.entry, state.white_result)) {
                return stop(state, wrong);
            }
            state.next = state.entry.position;
            state.at += Format::kHeader;
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
        entry.ply = static_cast<std::uint16_t>(entry.ply + (state.number != 0 ? 1 : 0));
        entry.result = static_cast<std::int8_t>(side == kWhite ? state.white_result : -state.white_result);
        ++state.number;
        state.at += 4;
        return true;
    }
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
