#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stream/order/order.h"
#include "stream/records.h"
#include "stream/window.h"

namespace sparsepool::stream {

// Copies the records of the chunks, each once, to their places in the window. Done in parts, which may run at once.
// Records of one size take one round of parts. Where each has a size of its own and they are shuffled, the first round
// writes the sizes, and when it is done it is known where each record begins.
class Scatter {
  public:
    // `order` empty: the records stay in the order of the chunks. The window gets the room that it needs.
    Scatter(std::optional<EntryOrder> order, const std::vector<LoadedChunk>& chunks, RecordBuffer& window);

    Parts parts;  // of this round

    void run(std::size_t part, const std::vector<LoadedChunk>& chunks, RecordBuffer& window,
             EntryOrder::Scratch& scratch) const;

    // When all parts are done: begins the next round; false if there is none.
    [[nodiscard]] bool next_round(RecordBuffer& window);

  private:
    static constexpr std::uint32_t kPartEntries = 1 << 16;

    void copy_chunk(std::size_t part, const RecordBuffer& chunk, RecordBuffer& window) const;

    template <class Put>
    void each_run(std::size_t part, const std::vector<LoadedChunk>& chunks, EntryOrder::Scratch& scratch,
                  const Put& put) const;

    template <std::size_t kSize>
    void scatter_sized(std::size_t part, const std::vector<LoadedChunk>& chunks, RecordBuffer& window,
                       EntryOrder::Scratch& scratch) const;

    std::optional<EntryOrder> order_;
    std::vector<std::uint64_t> begins_;       // of each chunk in the window: its first record's place; the size last
    std::vector<std::uint64_t> byte_begins_;  // its first byte's
    std::uint32_t runs_per_part_ = 1;
    bool measuring_ = false;
};

}  // namespace sparsepool::stream
