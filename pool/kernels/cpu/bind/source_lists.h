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
using Leaves = std::optional<std::vector<std::uint32_t>>;  // in the tree; none: 0, 1, 2 ...

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
    const bool narrow = is_bfloat16(source);
    require(narrow || source.dtype() == nanobind::dtype<float>(), name, " must be float32 or bfloat16");
    require_contiguous(source, name);
    return {source.data(), narrow};
}

inline Sources dense_sources(const std::vector<Array>& sources, const Leaves& leaves, std::size_t size) {
    Sources found{{}, checked_leaves(leaves, sources.size())};
    for (const Array& source : sources) {
        const std::string name = "source " + std::to_string(found.all.size());
        found.all.push_back(checked_source(source, name.c_str()));
        require(source.size() == size, name, " has ", source.size(), " numbers, must have ", size);
    }
    return found;
}

// A gradient has all of the rows, of which the first is feature first_row, or those alone that it touched.
inline std::vector<RowSource> row_sources(const RowPairs& sources, const Leaves& given, const char* what,
                                          std::size_t rows, std::size_t columns, std::size_t first_row) {
    const std::vector<std::uint32_t> leaves = checked_leaves(given, sources.size());
    std::vector<RowSource> found;
    for (const auto& [gradient, touched] : sources) {
        const std::string name = "source " + std::to_string(found.size());
        require_shape(gradient, name.c_str(), 2);
        const Source from = checked_source(gradient, name.c_str());
        const std::size_t own_rows = gradient.shape(0);
        const Numbers list = numbers(touched, ("touched of " + name).c_str());
        const std::size_t first = lower_bound(list, first_row);
        const std::size_t defined = lower_bound(list, first_row + rows) - first;
        require((own_rows == rows || own_rows == defined) && gradient.shape(1) == columns, name, " is [", own_rows,
                ", ", gradient.shape(1), "], but ", what, " is [", rows, ", ", columns, "], of which ", defined,
                " are touched");
        found.push_back({from, list, leaves[found.size()], own_rows != rows, first});
    }
    return found;
}

}  // namespace sparsepool
