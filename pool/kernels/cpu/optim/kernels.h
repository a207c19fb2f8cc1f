#pragma once

#include "fold/kernels.h"
#include "kernels/rules.cuh"

// The hot code of optimizers that add up their own gradients, and the plain structs that it works on. Nothing here
// checks bounds.
namespace sparsepool {

// What every optimizer steps. Of one size, but for the state of `rowwise_adagrad`: a number a row.
struct Stepped {
    float* weights;     // of the new version
    const float* old;   // of the version before; may be the same memory
    float* states[2];   // as many as the optimizer has
    float scale;        // of the summed gradients
    bool touched_only;  // of a table: rows that no source touched are left alone, weights of the new version included
    bool stream;        // stores of weights leave the caches alone
};

// Of Adam (optimizers.h). States: first and second moment.
struct AdamStep {
    Stepped to;
    rules::AdamNumbers<float> numbers;
};

// Of bullet's AdamW (optimizers.h): Adam's without a correction of the averages, then a clamp. States as Adam's.
struct ClippedAdamWStep {
    Stepped to;
    rules::AdamNumbers<float> numbers;
    float lowest, highest;
};

// Of Adagrad (optimizers.h). State: sum of squares.
struct AdagradStep {
    Stepped to;
    float rate, epsilon, decay;
};

// Of FTRL-proximal (optimizers.h). States: the linear sum z and the sum of squares n.
struct FtrlStep {
    Stepped to;
    float per_rate;  // 1 / learning rate
    float beta, l1, l2;
};

// A step with the fold of the sources as gradient; of none: zeros. Of numbers first .. last, or of the rows of a block.
template <class Step>
struct OptimizerKernels {
    void (*all)(const Step& step, const Addends& from, Held held, std::size_t first, std::size_t last);
    void (*rows)(const Step& step, const RowSources& sources, std::size_t columns, const Block& block);
};

struct StepKernels {
    OptimizerKernels<AdamStep> adam;
    OptimizerKernels<AdagradStep> adagrad;  // rows: row-wise
    OptimizerKernels<FtrlStep> ftrl;
    OptimizerKernels<ClippedAdamWStep> clipped_adamw;

    static const StepKernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool
