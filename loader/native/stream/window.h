#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "stream/order.h"
#include "stream/record_buffer.h"
#include "stream/record_source.h"

// A window on its way: its chunks are decoded one by one, then its entries are put in order.
namespace sparsepool::stream {

struct LoadedChunk {
    RecordBuffer records;  // after the filters
    std::optional<SourceFault> fault;
};

// How many parts of a job have been given out and have come back.
struct Parts {
    std::size_t count = 0;
    std::size_t claimed = 0;
    std::size_t finished = 0;

    [[nodiscard]] bool left() const { return claimed < count; }
    [[nodiscard]] bool done() const { return finished == count; }
};

struct Loading {
    std::uint64_t epoch = 0;
    std::uint64_t window = 0;
    std::vector<std::uint32_t> chunks;
    std::vector<LoadedChunk> loaded;  // one per chunk
    Parts parts;

    // The first fault, in the order of the chunks.
    [[nodiscard]] const SourceFault* fault() const {
        for (const LoadedChunk& chunk : loaded) {
            if (chunk.fault) return &*chunk.fault;
        }
        return nullptr;
    }
};

// Copies the entries of the chunks, each once, to their places in the window. Parts may run at once.
class Scatter {
  public:
    // `order` empty: the entries stay in file order. `begins`: of each chunk in the window; the size last.
    Scatter(std::optional<EntryOrder> order, std::vector<std::uint64_t> begins)
        : order_(std::move(order)), begins_(std::move(begins)) {
        if (!order_) {
            parts.count = begins_.size() - 1;
            return;
        }
        runs_per_part_ = std::max(1U, kPartEntries / order_->lanes());
        parts.count = (order_->num_runs() + runs_per_part_ - 1) / runs_per_part_;
    }

    Parts parts;

    void run(std::size_t part, const std::vector<LoadedChunk>& chunks, chess::Record* window,
             EntryOrder::Scratch& scratch) const;

  private:
    static constexpr std::uint32_t kPartEntries = 1 << 16;

    std::optional<EntryOrder> order_;
    std::vector<std::uint64_t> begins_;
    std::uint32_t runs_per_part_ = 1;
};

}  // namespace sparsepool::stream
