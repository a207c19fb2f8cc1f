#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "chess/native/batch/layout.h"
#include "chess/native/batch/slot_arrays.h"
#include "chess/native/features/feature_set.h"
#include "chess/native/record.h"
#include "common/memory/aligned_memory.h"
#include "stream/source.h"

namespace sparsepool::chess {

// Writes batches of positions. Samples are ordered by output bucket, and within a bucket as they came.
class PositionBatchWriter final : public stream::BatchWriter {
  public:
    PositionBatchWriter(const Layout& layout, std::shared_ptr<const FeatureSet> set);  // throws std::bad_alloc

    // `slot`: at least slot_bytes, 8-byte aligned.
    void write(std::uint64_t number, const stream::RecordSpan& head, const stream::RecordSpan& body,
               std::byte* slot) override;

  private:
    [[nodiscard]] SlotArrays arrays_in_slot(std::byte* slot) const;

    void allocate_relations();
    void allocate_bit_columns();

    // Allocates memory in full cache lines, uninitialized.
    template <class Item>
    Item* allocate(std::size_t count);

    Layout layout_;
    std::shared_ptr<const FeatureSet> set_;
    std::vector<AlignedMemory<std::byte>> memory_;
    Scratch scratch_;
};

}  // namespace sparsepool::chess
