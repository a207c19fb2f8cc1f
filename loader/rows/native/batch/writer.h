#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "batch/sorted_columns.h"
#include "common/memory/growing_memory.h"
#include "rows/native/batch/layout.h"
#include "rows/native/shape.h"
#include "stream/source.h"

namespace sparsepool::rows {

// Batches of rows, in the order in which they come.
class RowBatchWriter final : public stream::BatchWriter {
  public:
    RowBatchWriter(const Layout& layout, const RowShape& shape);

    // `slot`: at least slot_bytes, 8-byte aligned.
    void write(std::uint64_t number, const stream::RecordSpan& head, const stream::RecordSpan& body,
               std::byte* slot) override;

  private:
    void write_dense(std::byte* slot) const;
    [[nodiscard]] std::uint32_t write_table(std::size_t table, std::byte* slot, std::uint32_t& active);

    template <class Number, class Bag, class Item>
    [[nodiscard]] std::uint32_t write_arrays(std::size_t table, std::byte* slot, GrowingMemory<Item> (&memory)[2]);

    Layout layout_;
    RowShape shape_;
    std::vector<std::size_t> by_field_;        // the tables, in the order of their fields in a record
    std::vector<const std::uint32_t*> rows_;   // of the batch: where each record begins
    std::vector<const std::uint32_t*> words_;  // where each record's next field begins
    GrowingMemory<batch::ActiveFeature> active_[2];
    GrowingMemory<batch::ValuedFeature> valued_[2];
};

}  // namespace sparsepool::rows
