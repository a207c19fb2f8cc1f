#pragma once

#include <cstdint>
#include <vector>

#include "batch/regions.h"
#include "rows/native/shape.h"

// What a batch of rows has, and where it lies in a slot.
namespace sparsepool::rows {

struct TableLayout {
    batch::Region offsets, features, values, touched, touched_offsets, bags, column_values;
};

struct Layout {
    std::uint32_t batch_size = 0;
    std::uint64_t slot_bytes = 0;
    batch::Region header, bucket_offsets, qid;
    std::vector<batch::Region> dense;
    std::vector<TableLayout> tables;  // in the order of the shape's
};

// Throws std::invalid_argument if the table is not that of such a batch, or the shape is none.
[[nodiscard]] Layout read_layout(const batch::Regions& regions, std::uint64_t batch_size, std::uint64_t slot_bytes,
                                 const RowShape& shape);

}  // namespace sparsepool::rows
