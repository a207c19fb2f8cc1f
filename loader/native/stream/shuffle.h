#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stream/order/order.h"
#include "stream/records.h"
#include "stream/window.h"

namespace sparsepool::stream {

// Copies each record of the chunks to its position in the window. The work is done in parts, which may run at once.
//
// Records of one size take one round of parts. Records with sizes of their own take two if they are shuffled: the first
// writes the sizes, which tell where each record begins; the second copies.
class Shuffle {
  public:
    // Without an `order` the records stay in the order of the chunks. Allocates the window's memory.
    Shuffle(std::optional<EntryOrder> order, const std::vector<LoadedChunk>& chunks, RecordBuffer& window);

    PartCounter parts;  // of this round

    void run(std::size_t part, const std::vector<LoadedChunk>& chunks, RecordBuffer& window, RunBuffer& buffer) const;

    // Starts the next round, when all parts are finished. False if there is none.
    [[nodiscard]] bool start_next_round(RecordBuffer& window);

  private:
    static constexpr std::uint32_t kPartEntries = 1 << 16;

    void copy_chunk(std::size_t index, const RecordBuffer& chunk, RecordBuffer& window) const;

    template <class Visit>
    void visit_records(std::size_t part, const std::vector<LoadedChunk>& chunks, RunBuffer& buffer,
                       const Visit& visit) const;

    template <std::size_t kSize>
    void copy_sized(std::size_t part, const std::vector<LoadedChunk>& chunks, RecordBuffer& window,
                    RunBuffer& buffer) const;
    void measure_records(std::size_t part, const std::vector<LoadedChunk>& chunks, RecordBuffer& window,
                         RunBuffer& buffer) const;
    void copy_unsized(std::size_t part, const std::vector<LoadedChunk>& chunks, RecordBuffer& window,
                      RunBuffer& buffer) const;

    std::optional<EntryOrder> order_;
    std::vector<std::uint64_t> first_records_;  // of each chunk, in the window before shuffling; the window's size last
    std::vector<std::uint64_t> first_bytes_;    // likewise
    std::uint32_t runs_per_part_ = 1;
    bool is_measuring_ = false;  // this round writes sizes
};

}  // namespace sparsepool::stream
