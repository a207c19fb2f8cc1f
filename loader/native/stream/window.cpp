#include "stream/window.h"

#include <cstring>

namespace sparsepool::stream {

void Scatter::run(std::size_t part, const std::vector<LoadedChunk>& chunks, chess::Record* window,
                  std::vector<std::uint32_t>& places) const {
    if (!order_) {
        const std::uint64_t count = begins_[part + 1] - begins_[part];
        if (count != 0) std::memcpy(window + begins_[part], chunks[part].records.data(), count * sizeof *window);
        return;
    }
    places.resize(order_->lanes());
    const auto first_run = static_cast<std::uint32_t>(part * runs_per_part_);
    const std::uint32_t last_run = std::min(order_->num_runs(), first_run + runs_per_part_);
    std::uint64_t entry = std::uint64_t{first_run} * order_->lanes();
    std::size_t chunk = 0;
    for (std::uint32_t run = first_run; run < last_run; ++run) {
        const std::uint32_t count = order_->place_run(run, places);
        for (std::uint32_t i = 0; i < count; ++i, ++entry) {
            while (entry >= begins_[chunk + 1]) ++chunk;
            window[places[i]] = chunks[chunk].records.data()[entry - begins_[chunk]];
        }
    }
}

}  // namespace sparsepool::stream
