#pragma once

#include <sstream>
#include <stdexcept>

// How the library reports errors. A wrong argument is a std::invalid_argument with one line and the numbers, which the
// bindings turn into a ValueError. Wrong data is no exception but a value that is returned, with file and offset.
namespace sparsepool {

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
    std::ostringstream line;
    (line << ... << parts);
    throw std::invalid_argument(line.str());
}

template <class... Parts>
void require(bool holds, const Parts&... parts) {
    if (!holds) refuse(parts...);
}

}  // namespace sparsepool
