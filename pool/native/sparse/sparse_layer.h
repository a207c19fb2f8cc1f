#pragma once

#include "arrays/matrix.h"
#include "sparse/kernels.h"

// The sparse layer: forward sums table rows per bag, backward sums gradient rows per touched feature.
//
// Threads own rectangles of outputs (columns first), so the bits do not depend on their number. All input is
// checked before anything is written; std::invalid_argument names what is wrong.
namespace sparsepool {

// out[i] = bias + weight[features[offsets[i]]] + ..., left to right; `bias` null stands for zeros.
void sparse_forward(ConstMatrix weight, const float* bias, Offsets offsets, Numbers features, Matrix out,
                    std::size_t threads);

// grad_weight[touched[j]] = 0 + grad_out[bags[touched_offsets[j]]] + ..., left to right, for j in [first, last);
// other rows are left as they are.
void sparse_backward_rows(Numbers touched, Offsets touched_offsets, Numbers bags, ConstMatrix grad_out,
                          Matrix grad_weight, std::size_t first, std::size_t last, std::size_t threads);

// out[c] = sum of column c: sums of 256 rows each, added from the first.
void column_sum(ConstMatrix matrix, float* out, std::size_t threads);

}  // namespace sparsepool
