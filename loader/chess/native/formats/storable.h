#pragma once

#include <cstdint>

#include "chess/native/board/position.h"

// What formats ask of an entry before they write it. Faults are null if nothing is wrong.
namespace sparsepool::chess {

// Of the rights: each has a rook, and a king on the rank with it, on the right side.
[[nodiscard]] const char* find_castling_problem(const Position& position);

// Of the en-passant square: a pawn has passed it in the move before.
[[nodiscard]] const char* find_en_passant_problem(const Position& position);

// Of the move: it is one that the position allows, pins and checks ignored.
[[nodiscard]] const char* find_stored_move_problem(const Entry& entry);

// Of the result: there is one.
[[nodiscard]] const char* find_result_problem(const Entry& entry);

// Of the score: it can be White's. `white_score` is that.
[[nodiscard]] const char* to_white_score(const Entry& entry, std::int16_t& white_score);

// The position after the move, which must be sound.
[[nodiscard]] Position position_after(const Entry& entry);

// The en-passant square if a pawn can take there, else kNoSquare.
[[nodiscard]] unsigned capturable_ep_square(const Position& position);

// The files of the rooks of the rights that are held, as Position::rook_files has them; 0 for others.
[[nodiscard]] std::uint16_t active_rook_files(const Position& position);

// Whether these are the same, an en-passant square that no pawn can take on aside. Clocks are not compared.
[[nodiscard]] bool are_equal(const Position& position, const Position& other);

[[nodiscard]] inline std::int8_t white_result(const Entry& entry) {
    return static_cast<std::int8_t>(entry.position.side == kWhite ? entry.result : -entry.result);
}

}  // namespace sparsepool::chess
