#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind/arrays.h"
#include "reduce/sources.h"

// Lists of gradients from Python, checked against the tensor that they are added up for.
namespace sparsepool {

using RowPairs = std::vector<std::pair<Array, Array>>;     // gradient, touched
using Leaves = std::optional<std::vector<std::uint32_t>>;  // of the sources in the tree; none: 0, 1, 2 ...

inline std::vector<std::uint32_t> checked_leaves(const Leaves& given, std::size_t count) {
    std::vector<std::uint32_t> leaves;
    if (given) {
        require(given->size() == count, "there are ", given->size(), " leaves for ", count, " sources");
        leaves = *given;
    } else {
        for (std::uint32_t leaf = 0; leaf < count; ++leaf) leaves.push_back(leaf);
    }
    for (std::size_t s = 1; s < count; ++s) {
        require(leaves[s - 1] < leaves[s], "leaf ", s, " is ", leaves[s], " after ", leaves[s - 1],
                ": leaves must ascend");
    }
    return leaves;
}

inline Source checked_source(const Array& source, const char* name) {
    const bool is_narrow = is_bfloat16(source);
    require(is_narrow || source.dtype() == nanobind::dtype<float>(), name, " must be float32 or bfloat16");
    require_contiguous(source, name);
    return {source.data(), is_narrow};
}

inline Sources dense_sources(const std::vector<Array>& arrays, const Leaves& leaves, std::size_t size) {
    Sources sources{{}, checked_leaves(leaves, arrays.size())};
    for (const Array& array : arrays) {
        const std::string name = "source " + std::to_string(sources.all.size());
        sources.all.push_back(checked_source(array, name.c_str()));
        require(array.size() == size, name, " has ", array.size(), " numbers, must have ", size);
    }
    return sources;
}

// Gradients of a table [rows, columns] whose first row is feature first_row. Each has either all rows or just those
// that it touched. `name`: of the table, for messages.
inline std::vector<RowSource> row_sources(const RowPairs& pairs, const Leaves& given_leaves, const char* name,
                                          std::size_t rows, std::size_t columns, std::size_t first_row) {
    const std::vector<std::uint32_t> leaves = checked_leaves(given_leaves, pairs.size());
    std::vector<RowSource> sources;
    for (const auto& [gradient, touched] : pairs) {
        const std::string source_name = "source " + std::to_string(sources.size());
        require_shape(gradient, source_name.c_str(), 2);
        const Source source = checked_source(gradient, source_name.c_str());
        const std::size_t gradient_rows = gradient.shape(0);
        const Numbers list = numbers(touched, ("touched of " + source_name).c_str());
        const std::size_t first = lower_bound(list, first_row);
        const std::size_t num_touched = lower_bound(list, first_row + rows) - first;
        const bool has_expected_rows = gradient_rows == rows || gradient_rows == num_touched;
        require(has_expected_rows && gradient.shape(1) == columns, source_name, " is [", gradient_rows, ", ",
                gradient.shape(1), "], but ", name, " is [", rows, ", ", columns, "], of which ", num_touched,
                " are touched");
        const bool is_compact = gradient_rows != rows;
        sources.push_back({source, list, leaves[sources.size()], is_compact, first});
    }
    return sources;
}

}  // namespace sparsepool
