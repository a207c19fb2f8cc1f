#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "chess/native/board/position.h"

// Positions and moves as text: FEN, and the moves of the UCI protocol.
namespace sparsepool::chess {

inline constexpr std::size_t kMaxFen = 112;  // 71 board, 2 side, 5 castling, 3 en passant, 4 clock, 6 move number
inline constexpr std::size_t kMaxUci = 8;

// Writes the first `fields` fields of the FEN, 2 at least, and returns the end: at most kMaxFen characters, no
// terminator. Castling rights are KQkq, or letters of files if a rook of theirs is not in a corner.
char* write_fen(const Position& position, unsigned move_number, char* out, unsigned fields = 6);

// Returns how many fields a FEN of the entry can have: those before the first part that the entry lacks.
[[nodiscard]] unsigned count_fen_fields(const Entry& entry);

// Writes a move as UCI has it and returns the end: at most kMaxUci characters, no terminator. Castling is the king's
// two-step move, or in a game of Chess960 the king onto its rook. The null move is 0000.
char* write_uci(Move move, bool chess960, char* out);

// Parses a FEN of 4 to 6 fields. The move number is ignored; a missing clock is 0; the en-passant square is not
// checked. Returns what is wrong, or an empty text.
[[nodiscard]] std::string parse_fen(std::string_view text, Position& position);

// Parses a FEN of `min_fields` to 6 fields. `move_number` is 0 if there is none or it is not a number, and may be too
// large. `missing_parts` becomes the mask of EntryPart that the FEN does not have. Returns what is wrong, or an empty
// text.
[[nodiscard]] std::string parse_fen(std::string_view text, std::size_t min_fields, Position& position,
                                    unsigned& move_number, std::uint8_t& missing_parts);

// Returns the message for an entry that lacks parts (a mask of EntryPart) that a filter needs; null for no such part.
[[nodiscard]] const char* describe_missing_part(unsigned missing);

// Returns the move between two squares, which is not a promotion. Castling by two steps of the king becomes castling
// onto the rook. The move may be illegal.
[[nodiscard]] Move resolve_move(const Position& position, unsigned from, unsigned to);

// Parses a move of UCI that is to be played in `position`: e1g1 and e1h1 both castle if the king stands on e1. The move
// may be illegal. Returns what is wrong, or an empty text.
[[nodiscard]] std::string parse_uci(std::string_view text, const Position& position, Move& move);

}  // namespace sparsepool::chess
