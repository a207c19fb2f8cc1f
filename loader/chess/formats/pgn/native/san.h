#pragma once

#include <cstddef>
#include <string_view>

#include "chess/native/board/position.h"

// Moves in Standard Algebraic Notation: Nf3, exd6, O-O, e8=Q+.
namespace sparsepool::pgn {

inline constexpr std::size_t kMaxSan = 8;

enum class SanFault { kNone, kNoMove, kIllegal, kAmbiguous };

// Parses a legal move of the position. In SAN, which may say more than needed (Ng1f3, e7-e8Q), and in which ! ? + # are
// ignored; or in UCI's notation (g1f3, e7e8q; castling as the king's move to the c- or g-file, or onto its rook).
[[nodiscard]] SanFault parse_san(std::string_view text, const chess::Position& position, chess::Move& move);

// Writes a legal move, at most kMaxSan letters, and returns the end.
char* write_san(const chess::Position& position, chess::Move move, char* out);

}  // namespace sparsepool::pgn
