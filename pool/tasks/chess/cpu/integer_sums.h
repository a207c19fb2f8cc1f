#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/matrix.h"

// Layers of an exported chess network in the integers of its engine, which wrap.
namespace sparsepool::chess {

// Rows of features first .. first + rows - 1, each of as many columns as the sums.
template <class Element>
struct IntegerTable {
    const Element* weights;
    std::size_t first, rows;
};

// Several of them, of which each feature is in one at most; a feature that is in none counts nothing.
struct IntegerTables {
    std::vector<IntegerTable<std::int8_t>> narrow;
    std::vector<IntegerTable<std::int16_t>> wide;
};

// out[i] = start + rows of features[offsets[i] .. offsets[i + 1] - 1], modulo 2^16; start is null for zeros.
void sum_rows(const IntegerTables& tables, const std::int16_t* start, const std::uint32_t* features, Offsets offsets,
              std::int16_t* out, std::size_t columns, std::size_t threads);

// The same of int32, modulo 2^32.
void sum_rows(const std::vector<IntegerTable<std::int32_t>>& tables, const std::uint32_t* features, Offsets offsets,
              std::int32_t* out, std::size_t columns, std::size_t threads);

// out[i] = bias + weight * inputs[i], modulo 2^32. inputs [samples, depth], weight [outputs, depth], bias [outputs],
// out [samples, outputs]. Most inputs are 0, and cost nothing.
void add_products(const std::uint16_t* inputs, std::size_t samples, std::size_t depth, const std::int8_t* weight,
                  const std::int32_t* bias, std::size_t outputs, std::int32_t* out);

}  // namespace sparsepool::chess
