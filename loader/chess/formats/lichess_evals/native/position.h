#pragma once

#include <string>
#include <string_view>

#include "chess/native/board/position.h"

namespace sparsepool::lichess_evals {

// What is wrong with a line; nothing if the entry is what it says.
[[nodiscard]] std::string read_position(std::string_view line, unsigned required_parts, chess::Entry& entry);

}  // namespace sparsepool::lichess_evals
