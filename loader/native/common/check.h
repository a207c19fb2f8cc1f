#pragma once

#include <sstream>
#include <stdexcept>

// How the library reports errors: what a caller got wrong is a std::invalid_argument, one line with the numbers, which
// the bindings turn into a ValueError. What is wrong with data is no exception but an answer: a value that names file
// and offset.
namespace sparsepool {

template <class... Words>
[[noreturn]] void refuse(const Words&... words) {
    std::ostringstream line;
    (line << ... << words);
    throw std::invalid_argument(line.str());
}

template <class... Words>
void require(bool holds, const Words&... words) {
    if (!holds) refuse(words...);
}

}  // namespace sparsepool
