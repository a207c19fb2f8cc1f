#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sparsepool::chess::where {

// What is wrong with an expression: "column 8: ...", counted from 1.
class Fault : public std::invalid_argument {
  public:
    Fault(std::size_t column, const std::string& what)
        : std::invalid_argument(std::string("column ").append(std::to_string(column)).append(": ").append(what)) {}
};

struct Token {
    enum class Kind : std::uint8_t { kNumber, kWord, kSymbol, kEnd };

    Kind kind = Kind::kEnd;
    std::string_view text;
    std::size_t column = 1;
    double number = 0.0;

    [[nodiscard]] bool is(std::string_view what) const { return kind != Kind::kNumber && text == what; }
};

// The parts of an expression; the last one is its end. Throws Fault. `text` must outlive them.
[[nodiscard]] std::vector<Token> tokens_of(std::string_view text);

}  // namespace sparsepool::chess::where
