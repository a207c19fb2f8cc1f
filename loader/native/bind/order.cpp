#include "stream/order.h"

#include <nanobind/stl/vector.h>

#include "bind/bind.h"

namespace nb = nanobind;
using namespace nb::literals;

void bind_order(nb::module_& module) {
    module.def(
        "chunks_of_window",
        [](std::size_t num_chunks, std::size_t window_chunks, bool shuffle, std::uint64_t seed, std::uint64_t epoch,
           std::uint64_t window) {
            const sparsepool::stream::ChunkOrder order(num_chunks, window_chunks, shuffle, seed);
            if (window >= order.num_windows()) return std::vector<std::uint32_t>{};
            return order.window(epoch, window);
        },
        "num_chunks"_a, "window_chunks"_a, "shuffle"_a, "seed"_a, "epoch"_a, "window"_a);
}
