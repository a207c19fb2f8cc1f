// Lists of gradients from Python, checked against the tensor that they are added up for.
#pragma once

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "arrays.h"

using RowPairs = std::vector<std::pair<Array, Array>>;  // gradient, touched

inline std::vector<const float*> dense_sources(const std::vector<Array>& sources, std::size_t size) {
    std::vector<const float*> found;
    for (const Array& source : sources) {
        found.push_back(floats<const float>(source, ("source " + std::to_string(found.size())).c_str(), size));
    }
    return found;
}

inline std::vector<sparsepool::RowSource> row_sources(const RowPairs& sources, const char* what, std::size_t rows,
                                                      std::size_t columns) {
    std::vector<sparsepool::RowSource> found;
    for (const auto& [gradient, touched] : sources) {
        const std::string name = "source " + std::to_string(found.size());
        const sparsepool::ConstMatrix from = matrix<const float>(gradient, name.c_str());
        sparsepool::require(from.rows == rows && from.columns == columns, name, " is [", from.rows, ", ", from.columns,
                            "], but ", what, " is [", rows, ", ", columns, "]");
        found.push_back({from.data, numbers(touched, ("touched of " + name).c_str())});
    }
    return found;
}
