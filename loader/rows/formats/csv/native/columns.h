#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/check.h"
#include "rows/native/shape.h"

namespace sparsepool::csv {

// How a file's lines are cut into columns.
struct Cut {
    char delimiter = ',';
    std::optional<char> quote;  // around text that has delimiters
    bool header = false;        // the first line has the names of the columns
};

// Which columns of a file are what, by number from 0 on, and what stands for no value.
struct Columns {
    Cut cut;
    std::size_t width = 0;                         // columns of each line
    std::vector<std::size_t> dense;                // in the order of the shape
    std::optional<std::size_t> qid;                // if the shape has it
    std::vector<std::vector<std::size_t>> fields;  // of each field of the shape, one column or more
    std::uint64_t seed = 0;                        // of a field's first column; one more of the next, and so on
    std::vector<std::string> missing;              // texts
    float missing_number = 0.0F;                   // never of a label or a weight, which can't be missing
    bool float_ids_are_integers = false;           // a category "17.0" is "17"
    bool missing_is_feature = false;               // of a category: the text "" stands for it
};

// Throws std::invalid_argument for columns that a file has not, or that are not those of the shape.
inline void require_fit(const Columns& columns, const rows::RowShape& shape) {
    const auto there = [&](std::size_t column) { return column < columns.width; };
    bool good = columns.dense.size() == shape.dense.size() && columns.qid.has_value() == shape.qid &&
                columns.fields.size() == shape.fields.size() && std::ranges::all_of(columns.dense, there) &&
                (!columns.qid || there(*columns.qid));
    for (const auto& field : columns.fields) good = good && !field.empty() && std::ranges::all_of(field, there);
    require(good, "the columns are not those of the shape");
}

}  // namespace sparsepool::csv
