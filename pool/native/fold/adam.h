#pragma once

#include <vector>

#include "arrays/matrix.h"
#include "fold/sources.h"

// Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1; weight decay added to the gradient, or decoupled as in Loshchilov
// and Hutter, arXiv 1711.05101) along with the fold of its gradient: sums, moments and weights in one pass over memory.
//
//   g = (sum of the sources) * scale + decay * w;   w = shrink * w
//   m = m + (1 - beta1) (g - m);   v = beta2 v + (1 - beta2) g^2
//   w = w - rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//
// decay is weight_decay and shrink 1, or decoupled: 0 and 1 - rate * weight_decay. The sum is fold.h's, bit for bit;
// each number is computed by itself, so threads and the way that a tensor is cut in pieces change nothing.
namespace sparsepool {

struct AdamSettings {
    double learning_rate, beta1, beta2, epsilon, weight_decay;
    bool decoupled;
    double step;  // t, from 1
    double scale;
};

// Of one size; `weights` is the new version, `old` the one before, which may be the same memory.
struct AdamTensors {
    float* weights;
    const float* old;
    float* mean;    // m
    float* square;  // v
};

void adam(const AdamTensors& tensors, const AdamSettings& settings, std::size_t size, const Sources& sources,
          std::size_t threads);

// For a table of which a source defines only the rows it touched; row r belongs to feature first_row + r. With
// `touched_only`, rows that no source touched are left alone, and so are those of `weights`.
void adam_rows(const AdamTensors& tensors, const AdamSettings& settings, std::size_t rows, std::size_t columns,
               const std::vector<RowSource>& sources, std::size_t first_row, bool touched_only, std::size_t threads);

}  // namespace sparsepool
