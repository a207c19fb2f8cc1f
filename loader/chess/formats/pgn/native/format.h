#pragma once

#include "chess/formats/pgn/native/evaluations.h"
#include "chess/native/files/walk.h"

namespace sparsepool::chess {
class Codec;
}

// Games in Portable Game Notation (S. Edwards, 1994, "Portable Game Notation Specification and Implementation Guide").
// Each move is an entry: the position before it, the move, and the score that a comment behind the move gives.
namespace sparsepool::pgn {

[[nodiscard]] const chess::Codec& codec();

// The format with comments read by these settings.
[[nodiscard]] const chess::Codec& codec_of(const CommentSettings& settings);

}  // namespace sparsepool::pgn
