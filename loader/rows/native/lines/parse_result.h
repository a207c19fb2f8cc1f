#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sparsepool::rows {

// What is wrong with a text, and where. Lines and columns count from 0.
struct TextFault {
    std::uint64_t line = 0;
    std::optional<std::uint64_t> column;  // byte of the line; none if the fault is of the full line
    std::string reason;                   // what is expected, and what the text has
};

// The result of parsing a text of complete lines.
struct ParseResult {
    std::uint64_t lines = 0;  // before the fault, or all
    std::uint64_t rows = 0;
    std::optional<TextFault> fault;
};

}  // namespace sparsepool::rows
