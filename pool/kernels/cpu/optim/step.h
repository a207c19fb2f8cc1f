#pragma once

#include <vector>

#include "fold/sources.h"
#include "optim/kernels.h"

// What a step of any optimizer works on, and the walks over it. Sums are fold.h's, bit for bit; each number, or each
// row, is computed by itself, so threads and the way that a tensor is cut in pieces change nothing.
namespace sparsepool {

// All of one size, unless an optimizer says otherwise; `weights` is the new version, `old` the one before, which may be
// the same memory. `states`: as many as the optimizer has.
struct StepTensors {
    float* weights;
    const float* old;
    float* states[2];
    double scale;  // of the summed gradients
};

// Whose gradient is the fold of the sources.
struct DenseGradient {
    std::size_t size;
    const Sources& sources;
};

// For a table of which a source defines only the rows it touched; row r belongs to feature first_row + r. With
// `touched_only`, rows that no source touched are left alone, and so are those of `weights`.
struct RowGradient {
    std::size_t rows, columns;
    const std::vector<RowSource>& sources;
    std::size_t first_row;
    bool touched_only;
};

Stepped stepped(const StepTensors& tensors, const DenseGradient& gradient);
Stepped stepped(const StepTensors& tensors, const RowGradient& gradient);

// `to` of the step is made by `stepped` from the same gradient.
template <class Step>
void walk(const OptimizerKernels<Step>& kernels, const Step& step, const DenseGradient& gradient, std::size_t threads);
template <class Step>
void walk(const OptimizerKernels<Step>& kernels, const Step& step, const RowGradient& gradient, std::size_t threads);

}  // namespace sparsepool
