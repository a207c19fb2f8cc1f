#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "batch/layout.h"
#include "chess/record.h"
#include "features/feature_set.h"

// Writes whole batches into slots. One builder a thread: it holds that thread's scratch memory.
namespace sparsepool::batch {

class Builder {
  public:
    Builder(const Layout& layout, const features::FeatureSet& set);

    // Writes batch `number`, made of the records of `head` and then `body`, batch_size together, into `slot`
    // (at least slot_bytes, 8-byte aligned). Samples are ordered by output bucket, otherwise as they came.
    void build(std::uint64_t number, std::span<const chess::Record> head, std::span<const chess::Record> body,
               std::byte* slot);

  private:
    void order_by_bucket(std::span<const chess::Record> head, std::span<const chess::Record> body, std::byte* slot);
    void write_dense(std::byte* slot) const;
    template <class Number>
    void write_rows(std::byte* slot);
    template <class Number>
    std::uint32_t write_columns(std::byte* slot);

    Layout layout_;
    const features::FeatureSet& set_;
    std::vector<chess::Record> samples_;
    std::vector<std::byte> opponent_;  // feature numbers of the second half of the bags, until it has a place
    std::vector<std::byte> bags_;      // lists of the transposed form, until they are complete
    std::vector<std::uint32_t> counts_;
};

}  // namespace sparsepool::batch
