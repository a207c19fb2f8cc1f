#pragma once

#include "base/matrix.h"
#include "sparse/kernels.h"

// The sparse layer: forward sums table rows per bag, backward sums gradient rows per touched feature.
//
// Threads own rectangles of outputs (columns first), so the bits do not depend on their number. All input is
// checked before anything is written; std::invalid_argument names what is wrong.
namespace sparsepool {

// The columns of the batch: feature touched[j] is active in bags[offsets[j]] .. bags[offsets[j + 1] - 1], each time
// with the value of the same place. `values` null stands for ones.
struct TouchedLists {
    Numbers touched;
    Offsets offsets;
    Numbers bags;
    const float* values;
};

// out[i] = bias + values[offsets[i]] * weight[features[offsets[i]]] + ..., left to right; `bias` null stands for zeros,
// `values` null for ones, with which nothing is multiplied. Else they are as many as features.
void sparse_forward(ConstMatrix weight, const float* bias, Offsets offsets, Numbers features, const float* values,
                    Matrix out, std::size_t threads);

// grad_weight[touched[j]] = 0 + values[offsets[j]] * grad_out[bags[offsets[j]]] + ..., left to right, for j in
// [first, last); other rows are left as they are. With values: whether all that was written is finite. Without: true.
bool sparse_backward_rows(const TouchedLists& lists, ConstMatrix grad_out, Matrix grad_weight, std::size_t first,
                          std::size_t last, std::size_t threads);

// out[c] = sum of column c: sums of 256 rows each, added from the first.
void column_sum(ConstMatrix matrix, float* out, std::size_t threads);

}  // namespace sparsepool
