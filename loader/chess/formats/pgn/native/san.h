#pragma once

#include <cstddef>
#include <string_view>

#include "chess/native/board/position.h"

// Moves in Standard Algebraic Notation: Nf3, exd6, O-O, e8=Q+.
namespace sparsepool::pgn {

inline constexpr std::size_t kMaxSan = 8;

enum class SanFault { kNone, kNoMove, kIllegal, kAmbiguous };

// Reads a legal move of the position: in SAN, in which more than it needs may be said (Ng1f3, e7-e8Q) and ! ? + # count
// for nothing, or as UCI has it (g1f3, e7e8q; castling as the king's move to c or g, or onto its rook).
[[nodiscard]] SanFault parse_san(std::string_view text, const chess::Position& position, chess::Move& move);

// Writes a legal move, at most kMaxSan letters, and gives back the end.
char* write_san(const chess::Position& position, chess::Move move, char* out);

}  // namespace sparsepool::pgn
