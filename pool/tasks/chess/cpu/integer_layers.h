#pragma once

#include <array>
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

// Several tables. Each feature is in one of them at most; a feature that is in none adds nothing.
struct IntegerTables {
    std::vector<IntegerTable<std::int8_t>> narrow;
    std::vector<IntegerTable<std::int16_t>> wide;
};

// Positions as one of their sides sees them: features[offsets[i] .. offsets[i + 1] - 1] of position i.
struct SideBags {
    const std::uint32_t* features;
    Offsets offsets;
};

// out[side][i] = start + rows of the side's features of position i, modulo 2^16. `start` null stands for zeros. Fastest
// where positions follow each other as in a game: the side that was the opponent is to move now, and few of its
// features have changed. Integers that wrap give the same sum in any order.
void sum_rows(const IntegerTables& tables, const std::int16_t* start, const std::array<SideBags, 2>& sides,
              std::array<std::int16_t*, 2> out, std::size_t columns, std::size_t threads);

// The same of int32, modulo 2^32.
void sum_rows(const std::vector<IntegerTable<std::int32_t>>& tables, const std::array<SideBags, 2>& sides,
              std::array<std::int32_t*, 2> out, std::size_t columns, std::size_t threads);

// out[i] = bias + weight * inputs[i], modulo 2^32. inputs [samples, depth] of uint16 or uint32, weight [outputs, depth]
// of int8 or int16, bias [outputs], out [samples, outputs]. Inputs that are 0 cost little.
template <class Input, class Weight>
void add_products(const Input* inputs, std::size_t samples, std::size_t depth, const Weight* weight,
                  const std::int32_t* bias, std::size_t outputs, std::int32_t* out);

}  // namespace sparsepool::chess
