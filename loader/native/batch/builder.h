#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "batch/layout.h"
#include "batch/slot_arrays.h"
#include "chess/record.h"
#include "features/feature_set.h"

// Writes whole batches into slots. One builder a thread: it holds that thread's scratch memory.
namespace sparsepool::batch {

class Builder {
  public:
    Builder(const Layout& layout, const features::FeatureSet& set);  // throws std::bad_alloc

    // Writes batch `number`, made of the records of `head` and then `body`, batch_size together, into `slot`
    // (at least slot_bytes, 8-byte aligned). Samples are ordered by output bucket, otherwise as they came.
    void build(std::uint64_t number, std::span<const chess::Record> head, std::span<const chess::Record> body,
               std::byte* slot);

  private:
    [[nodiscard]] SlotArrays arrays_in_slot(std::byte* slot) const;

    // Memory in whole cache lines, not filled.
    template <class Item>
    Item* allocate(std::size_t count);

    Layout layout_;
    const features::FeatureSet& set_;
    std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> memory_;
    Scratch scratch_;
};

}  // namespace sparsepool::batch
