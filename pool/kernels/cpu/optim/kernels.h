#pragma once

#include "optim/rules.h"
#include "reduce/kernels.h"

// The hot code of optimizers that add up their own gradients, and the plain structs that it works on. Nothing here
// checks bounds.
namespace sparsepool {

constexpr std::size_t kMostStates = 4;

// What every optimizer steps. Of one size, but for the state of row-wise Adagrad: a number a row.
struct Stepped {
    float* weights;              // of the new version
    const float* old;            // of the version before; may be the same memory
    float* states[kMostStates];  // as many as the rule has
    float scale;                 // of the summed gradients
    bool touched_only;  // of a table: rows that no source touched are left alone, weights of the new version too
    bool stream;        // stores of weights leave the caches alone
};

template <template <class> class Rule>
struct Step {
    Stepped to;
    Rule<float> by;
};

// A step with the sum of the sources as gradient; of none: zeros. Of numbers first .. last, or of the rows of a block.
template <template <class> class Rule>
struct OptimizerKernels {
    void (*all)(const Step<Rule>& step, const Addends& from, Held held, std::size_t first, std::size_t last);
    void (*rows)(const Step<Rule>& step, const RowSources& sources, std::size_t columns, const Block& block);
};

struct StepKernels {
    OptimizerKernels<rules::Adam> adam;
    OptimizerKernels<rules::RangerLite> ranger_lite;
    OptimizerKernels<rules::RangerLiteLookahead> ranger_lite_lookahead;
    OptimizerKernels<rules::ClippedAdamW> clipped_adamw;
    OptimizerKernels<rules::Adagrad> adagrad;  // rows: row-wise
    OptimizerKernels<rules::Ftrl> ftrl;

    static const StepKernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool
