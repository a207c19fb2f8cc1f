// The reduction: gradients of the batches of one step added up in batch order (I2), in one pass.
//
// Each output is a left fold done by one thread, so the bits depend on the order of the sources alone: not on
// threads, nor on how the list of sources is cut over several calls that accumulate.
#pragma once

#include <vector>

#include "matrix.h"

namespace sparsepool {

// out = ((out if accumulate) + sources[0] + sources[1] + ...) * scale; without accumulate the fold begins with
// sources[0] itself, and with zeros if there are none. A scale of 1 multiplies nothing.
void fold(float* out, std::size_t size, const std::vector<const float*>& sources, bool accumulate, float scale,
          std::size_t threads);

// The same for a table of which a source defines only the rows it touched; the rest of it is never read.
// Row r of `out` and of the sources belongs to feature first_row + r. A row begins with zeros (or out), so a
// lone -0.0 becomes 0.0: otherwise cutting the list of sources could change the bits.
void fold_rows(Matrix out, const std::vector<RowSource>& sources, bool accumulate, float scale,
               std::size_t first_row, std::size_t threads);

// Copies `size` numbers; whether all are finite.
bool copy_checked(const float* from, float* to, std::size_t size);

}  // namespace sparsepool
