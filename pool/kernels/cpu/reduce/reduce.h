#pragma once

#include <vector>

#include "base/matrix.h"
#include "reduce/sources.h"

// The reduction: gradients of one step added up along a fixed tree (tree.h, I2), in one pass.
//
// Each output is added up by one thread, so the bits depend on the leaves of the sources alone: not on threads, nor on
// which subtrees were summed before. Sources are float32 or bfloat16, which is widened as it is read.
namespace sparsepool {

// out = (sum of the sources) * scale; of none: zeros. A scale of 1 multiplies nothing. `out` may be one of the sources.
void reduce(float* out, std::size_t size, const Sources& sources, float scale, std::size_t threads);

// The same for a table of which a source defines only the rows it touched; the rest of it is never read, and adds
// nothing. Row r of `out` and of the sources belongs to feature first_row + r. Rows that no source touched become
// zeros, or with `touched_only` are left alone. A sum of -0.0 becomes 0.0.
void reduce_rows(Matrix out, const std::vector<RowSource>& sources, float scale, std::size_t first_row,
                 bool touched_only, std::size_t threads);

// The sum of the squares of `size` numbers, in double precision, in the order of rules.cuh: of chunks, then of chunks
// of their sums. The same for any number of threads, and on a CUDA device.
double sum_of_squares(const float* from, std::size_t size, std::size_t threads);

// Copies `size` numbers; whether all are finite.
bool copy_checked(const float* from, float* to, std::size_t size);

}  // namespace sparsepool
