#pragma once

#include <cstddef>

#include "chess/native/board/fen.h"
#include "chess/native/board/position.h"

namespace sparsepool::chess {

inline constexpr std::size_t kMaxLine = kMaxFen + kMaxUci + 32;

// Writes an entry as a line of at most kMaxLine characters and gives back the end: FEN, move (UCI), score, ply, result,
// tab separated. `move_number`: of the FEN.
char* write_line(const Entry& entry, unsigned move_number, char* out);

}  // namespace sparsepool::chess
