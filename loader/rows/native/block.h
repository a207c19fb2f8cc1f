#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rows/native/shape.h"
#include "stream/records.h"

namespace sparsepool::rows {

// Rows as arrays, one for each column, as readers written in Python return them. Nothing in them is checked yet.
struct FieldBlock {
    std::span<const std::int64_t> offsets;   // row r has features[offsets[r]] .. features[offsets[r + 1] - 1]
    std::span<const std::int64_t> features;  // counted from 0 within the field, in any order
    std::span<const float> values;           // one a feature, if the field has values
};

struct Block {
    std::size_t size = 0;                       // rows
    std::vector<std::span<const float>> dense;  // in the order of the shape
    std::span<const std::int64_t> qid;          // if the shape has it
    std::vector<FieldBlock> fields;             // in the order of the shape
};

// Appends the block's rows up to the first that is wrong. Returns what is wrong with it, or nothing.
[[nodiscard]] std::string append_block(const Block& block, const RowShape& shape, stream::RecordBuffer& rows);

}  // namespace sparsepool::rows
