#pragma once

#include <cstdint>

#include "chess/native/board/position.h"

// What formats require of an entry before they write it. The functions find_..._problem return why a part of the entry
// can't be written, or null if it can.
namespace sparsepool::chess {

// Each castling right must have its rook, and a king on the rook's rank and on the right side of it.
[[nodiscard]] const char* find_castling_problem(const Position& position);

// A pawn must have passed the en-passant square in the move before.
[[nodiscard]] const char* find_en_passant_problem(const Position& position);

// The entry must have a move, and it must be pseudo-legal.
[[nodiscard]] const char* find_stored_move_problem(const Entry& entry);

// The entry must have a result.
[[nodiscard]] const char* find_result_problem(const Entry& entry);

// Converts the score to White's view. Returns why it has no 16-bit number there; null if it has.
[[nodiscard]] const char* to_white_score(const Entry& entry, std::int16_t& white_score);

// Returns the position after the move, which must be pseudo-legal.
[[nodiscard]] Position position_after(const Entry& entry);

// Returns the en-passant square if a pawn can take there, else kNoSquare.
[[nodiscard]] unsigned capturable_ep_square(const Position& position);

// Returns the rooks' files of the castling rights that the position has, three bits each as in Position::rook_files.
// The bits of other rights are 0.
[[nodiscard]] std::uint16_t active_rook_files(const Position& position);

// Whether two positions are equal for the rules of chess. An en-passant square that no pawn can take on is ignored, and
// so are the clocks.
[[nodiscard]] bool are_equal(const Position& a, const Position& b);

[[nodiscard]] inline std::int8_t white_result(const Entry& entry) {
    return static_cast<std::int8_t>(entry.position.side == kWhite ? entry.result : -entry.result);
}

}  // namespace sparsepool::chess
