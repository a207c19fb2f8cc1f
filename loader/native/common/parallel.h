#pragma once

#include <cstddef>
#include <functional>

// Runs the parts of one call, each on its own thread. Threads live only as long as the call: nothing has to
// survive fork or be torn down at exit, and they inherit the caller's floating-point mode.
namespace sparsepool {

// part(0) runs on the calling thread; with parts = 1 no thread is made. `part` must not throw. Where the
// system gives no thread, the caller does that part too.
void run_parts(std::size_t parts, const std::function<void(std::size_t)>& part);

// Border number `part` when `total` is cut in `parts` pieces whose borders are multiples of `unit`.
inline std::size_t border(std::size_t total, std::size_t unit, std::size_t part, std::size_t parts) {
    const std::size_t units = (total + unit - 1) / unit;
    const std::size_t place = units * part / parts * unit;
    return place < total ? place : total;
}

}  // namespace sparsepool
