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

// Writes at most kMaxFen characters (no terminator) and gives back the end. Castling rights are KQkq, or letters of
// files if a rook of theirs stands in no corner. `fields`: how many of the six, 2 at least.
char* write_fen(const Position& position, unsigned move_number, char* out, unsigned fields = 6);

// The fields of an entry's FEN before the first that it lacks.
[[nodiscard]] unsigned count_fen_fields(const Entry& entry);

// Writes at most kMaxUci characters and gives back the end. Castling is the king's two-step move, in a game of
// Chess960 the king onto its rook; a promotion's letter is lower case, the null move is 0000.
char* write_uci(Move move, bool chess960, char* out);

// Reads a FEN of 4 to 6 fields; the move number is ignored, a missing clock is 0. The en-passant square is
// taken as it stands. Gives back what is wrong, or an empty text.
[[nodiscard]] std::string parse_fen(std::string_view text, Position& position);

// The same for one of `least` to 6 fields, with its move number, which may be 0 or too large; 0 if it has none or what
// is no number. `lacks` (EntryPart): what it does not say.
[[nodiscard]] std::string parse_fen(std::string_view text, std::size_t least, Position& position, unsigned& number,
                                    std::uint8_t& missing_parts);

// What a filter needs and an entry's FEN does not say (EntryPart), in words; null if that is nothing.
[[nodiscard]] const char* describe_missing_part(unsigned missing);

// The move as it is stored: also castling by two steps of the king is onto its rook. It may be illegal.
[[nodiscard]] Move resolve_move(const Position& position, unsigned from, unsigned to);

// Reads a move to be played in `position`: e1g1 and e1h1 both castle if the king stands on e1. Only what the
// stored word needs is looked at; the move may be illegal. Gives back what is wrong, or an empty text.
[[nodiscard]] std::string parse_uci(std::string_view text, const Position& position, Move& move);

}  // namespace sparsepool::chess
