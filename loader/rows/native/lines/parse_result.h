#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sparsepool::rows {

// What is wrong with a text, and where. All numbers count from 0.
struct TextFault {
    std::uint64_t line = 0;
    std::optional<std::uint64_t> column;  // byte of the line; none if it is about the whole line
    std::string reason;                   // what is expected, and what is there
};

// What became of a text of whole lines.
struct ParseResult {
    std::uint64_t lines = 0;  // of the text; at a fault, those before it
    std::uint64_t rows = 0;
    std::optional<TextFault> fault;
};

}  // namespace sparsepool::rows
