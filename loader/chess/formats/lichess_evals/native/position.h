#pragma once

#include <string>
#include <string_view>

#include "chess/native/board/position.h"

namespace sparsepool::lichess_evals {

// Parses a line, an object of JSON, into the entry. Returns what is wrong, or an empty text.
[[nodiscard]] std::string read_position(std::string_view line, unsigned required_parts, chess::Entry& entry);

}  // namespace sparsepool::lichess_evals
