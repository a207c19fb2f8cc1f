#pragma once

#include <string>
#include <string_view>

#include "chess/native/board/position.h"

// Lines of programs that tune evaluations: a FEN, or a position of EPD (S. Edwards, 1994), and White's result.
//
//     FEN c9 "1-0";              operations of EPD; any of c0 to c9 has the result, others may stand beside it
//     FEN [0.5]                  a result in brackets, also 1-0
//     FEN; 0.5   FEN "1-0"       behind a semicolon or in quotes
//     FEN 1-0    FEN|Black       a word that can be nothing else
namespace sparsepool::text {

// Parses a line into the entry, which has no score without an operation `ce`. Returns what is wrong, or an empty text.
[[nodiscard]] std::string read_tuning_line(std::string_view line, unsigned required_parts, chess::Entry& entry);

}  // namespace sparsepool::text
