#pragma once

#include <cstddef>
#include <functional>

// Runs the parts of one call on as many threads. They are made for the call: nothing has to survive fork or be torn
// down at exit, and they inherit the caller's floating-point mode.
namespace sparsepool {

// part(0) runs on the calling thread, which also does what no other has begun by then: where cores are busy, or the
// system gives no thread, a call takes no longer than one thread does. With parts = 1 no thread is made. `part` must
// not throw.
void run_parts(std::size_t parts, const std::function<void(std::size_t)>& part);

// Border number `part` when `total` is cut in `parts` pieces whose borders are multiples of `unit`.
inline std::size_t border(std::size_t total, std::size_t unit, std::size_t part, std::size_t parts) {
    const std::size_t units = (total + unit - 1) / unit;
    const std::size_t place = units * part / parts * unit;
    return place < total ? place : total;
}

}  // namespace sparsepool
