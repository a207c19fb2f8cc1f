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

// How the lines of a file are split into columns.
struct Cut {
    char delimiter = ',';
    std::optional<char> quote;  // around text that has delimiters
    bool header = false;        // the first line has the names of the columns
};

// What each column of a file is, by its number from 0 on, and which texts stand for no value.
struct Columns {
    Cut cut;
    std::size_t width = 0;                         // columns of each line
    std::vector<std::size_t> dense;                // in the order of the shape
    std::optional<std::size_t> qid;                // if the shape has it
    std::vector<std::vector<std::size_t>> fields;  // of each field of the shape, one column or more
    std::uint64_t seed = 0;                        // of a field's first column; one more of the next, and so on
    std::vector<std::string> missing;              // texts that stand for no value
    float missing_number = 0.0F;                   // never of a label or a weight, which can't be missing
    bool float_ids_are_integers = false;           // a category "17.0" is "17"
    bool missing_is_feature = false;               // of a category: the text "" stands for it
};

// Throws std::invalid_argument for columns that the file does not have, or that do not fit the shape.
inline void require_fit(const Columns& columns, const rows::RowShape& shape) {
    constexpr const char* kProblem = "the columns are not those of the shape";
    const auto exists = [&](std::size_t column) { return column < columns.width; };
    require(columns.dense.size() == shape.dense.size(), kProblem);
    require(columns.qid.has_value() == shape.qid, kProblem);
    require(columns.fields.size() == shape.fields.size(), kProblem);
    require(std::ranges::all_of(columns.dense, exists), kProblem);
    require(!columns.qid || exists(*columns.qid), kProblem);
    for (const auto& field : columns.fields) {
        require(!field.empty() && std::ranges::all_of(field, exists), kProblem);
    }
}

}  // namespace sparsepool::csv
