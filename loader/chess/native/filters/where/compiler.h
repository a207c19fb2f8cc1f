#pragma once

#include <string_view>

#include "chess/native/filters/where/program.h"

namespace sparsepool::chess::where {

inline constexpr std::size_t kLongest = 4096;  // of an expression, bytes

// An expression that is a condition of an entry, in the order of precedence:
//
//     or      and      not      < <= > >= == !=  (as in a < b < c)      + -      * /      -
//     numbers, squares (a1 0 ... h8 63), names, abs(x), min(x, y), max(x, y), file(square), rank(square), ( )
//
// Numbers are numbers and conditions are conditions: neither stands for the other. Throws Fault.
[[nodiscard]] Program compile(std::string_view text);

}  // namespace sparsepool::chess::where
