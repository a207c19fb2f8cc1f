// Bad input of a native call, as one line with the numbers; the binding makes it a ValueError.
#pragma once

#include <sstream>
#include <stdexcept>

namespace sparsepool {

template <class... Words>
[[noreturn]] void refuse(const Words&... words) {
    std::ostringstream line;
    (line << ... << words);
    throw std::invalid_argument(line.str());
}

template <class... Words>
void require(bool holds, const Words&... words) {
    if (!holds) {
        refuse(words...);
    }
}

}  // namespace sparsepool
