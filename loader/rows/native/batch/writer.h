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

// Writes batches of rows, in the order in which the rows come.
class RowBatchWriter final : public stream::BatchWriter {
  public:
    RowBatchWriter(const Layout& layout, const RowShape& shape);

    // `slot`: at least slot_bytes, 8-byte aligned.
    void write(std::uint64_t number, const stream::RecordSpan& head, const stream::RecordSpan& body,
               std::byte* slot) override;

  private:
    void write_dense(std::byte* slot) const;

    // Writes the arrays of a table. Returns how many features the batch touches; `active` becomes how many are active.
    [[nodiscard]] std::uint32_t write_table(std::size_t index, std::byte* slot, std::uint32_t& active);

    template <class Number, class Bag, class Item>
    [[nodiscard]] std::uint32_t write_arrays(std::size_t index, std::byte* slot, GrowingMemory<Item> (&memory)[2]);

    template <class Number, class Item>
    void copy_features(const Table& table, Number* features, float* values, batch::FeatureSort<Item>& sort);

    Layout layout_;
    RowShape shape_;
    std::vector<std::size_t> by_field_;        // the tables, in the order of their fields in a record
    std::vector<const std::uint32_t*> rows_;   // of each row of the batch: where its record begins
    std::vector<const std::uint32_t*> words_;  // and where the record's next field begins
    GrowingMemory<batch::ActiveFeature> active_[2];
    GrowingMemory<batch::ValuedFeature> valued_[2];
};

}  // namespace sparsepool::rows
