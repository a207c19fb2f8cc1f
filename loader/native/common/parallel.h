#pragma once

#include <cstddef>
#include <functional>

// Runs the parts of a call on as many threads. The threads are started for the call: nothing has to survive a fork or
// be torn down at exit, and they inherit the caller's floating-point mode.
namespace sparsepool {

// Calls part(0) .. part(parts - 1). part(0) runs on the calling thread, which then runs the parts that no other thread
// has begun: where cores are busy, or the system has no thread, a call takes no longer than with one thread. With
// parts = 1 no thread is started. `part` must not throw.
void run_parts(std::size_t parts, const std::function<void(std::size_t)>& part);

// Where part number `part` begins when `total` is cut in `parts` of about the same size, at multiples of `unit`.
inline std::size_t border(std::size_t total, std::size_t unit, std::size_t part, std::size_t parts) {
    const std::size_t units = (total + unit - 1) / unit;
    const std::size_t begin = units * part / parts * unit;
    return begin < total ? begin : total;
}

}  // namespace sparsepool
