#pragma once

#include <vector>

#include "base/matrix.h"
#include "reduce/sources.h"

// The reduction: adds up the gradients of a step along a fixed tree (tree.h, I2), in one pass.
//
// One thread adds up each output, so the bits depend on the leaves of the sources alone: not on the number of threads,
// nor on which subtrees were summed before. Sources are float32 or bfloat16, which is widened as it is read.
namespace sparsepool {

// out = (sum of the sources) * scale. The sum of none is zeros. A scale of 1 multiplies nothing. `out` may be one of
// the sources.
void reduce(float* out, std::size_t size, const Sources& sources, float scale, std::size_t threads);

// The same for tables. A source defines only the rows that it touched; its other rows are never read and count as
// zeros. Row r of `out` and of the sources belongs to feature first_row + r. Rows that no source touched become zeros,
// or are not written with `touched_only`. A sum of -0.0 becomes 0.0.
void reduce_rows(Matrix out, const std::vector<RowSource>& sources, float scale, std::size_t first_row,
                 bool touched_only, std::size_t threads);

// The sum of the squares of `size` numbers in double precision, in the order of rules.cuh: sums of chunks, then sums of
// chunks of these. The same bits for any number of threads, and on a CUDA device.
double sum_of_squares(const float* from, std::size_t size, std::size_t threads);

// Copies `size` numbers. Returns whether all are finite.
bool copy_checked(const float* from, float* to, std::size_t size);

}  // namespace sparsepool
