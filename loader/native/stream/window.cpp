#include "stream/window.h"

#include <cstring>

namespace sparsepool::stream {
namespace {

// Each lane is written a record a run; no hardware follows so many streams, so the line of some runs later is asked
// for by hand.
constexpr std::uint32_t kAhead = 8;

}  // namespace

void Scatter::run(std::size_t part, const std::vector<LoadedChunk>& chunks, chess::Record* window,
                  EntryOrder::Scratch& scratch) const {
    if (!order_) {
        const std::uint64_t count = begins_[part + 1] - begins_[part];
        if (count != 0) std::memcpy(window + begins_[part], chunks[part].records.data(), count * sizeof *window);
        return;
    }
    const auto first_run = static_cast<std::uint32_t>(part * runs_per_part_);
    const std::uint32_t last_run = std::min(order_->num_runs(), first_run + runs_per_part_);
    std::uint64_t entry = std::uint64_t{first_run} * order_->lanes();
    std::size_t chunk = 0;
    for (std::uint32_t run = first_run; run < last_run; ++run) {
        const std::uint32_t count = order_->place_run(run, scratch);
        const std::uint32_t* places = scratch.places.data();
        for (std::uint32_t i = 0; i < count;) {
            while (entry >= begins_[chunk + 1]) ++chunk;
            const chess::Record* records = chunks[chunk].records.data() + (entry - begins_[chunk]);
            const auto here = static_cast<std::uint32_t>(std::min<std::uint64_t>(count - i, begins_[chunk + 1] - entry));
            for (std::uint32_t k = 0; k < here; ++k) {
                chess::Record* place = window + places[i + k];
                *place = records[k];
                __builtin_prefetch(place + kAhead, 1);
            }
            i += here;
            entry += here;
        }
    }
}

}  // namespace sparsepool::stream
