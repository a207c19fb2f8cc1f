#pragma once

#include "optim/rules.h"
#include "reduce/kernels.h"

// The kernels of optimizers that reduce their gradients themselves, and the plain structs that they work on. Nothing
// here checks bounds.
namespace sparsepool {

constexpr std::size_t kMaxStates = 4;

// The tensors of a step, all of one size; but row-wise Adagrad has one number of state for each row.
struct StepTensors {
    float* weights;             // of the new version
    const float* old_weights;   // of the version before; may be the same memory
    float* states[kMaxStates];  // as many as the rule has
    float scale;                // factor of the summed gradients
    bool touched_only;          // of a table: rows that no source touched are neither read nor written
    bool stream;                // stores of weights bypass the caches
};

template <template <class> class Rule>
struct Step {
    StepTensors tensors;
    Rule<float> rule;
};

// A step whose gradient is the sum of the sources, or zeros if there is none: of numbers first .. last - 1, or of the
// rows of a block.
template <template <class> class Rule>
struct OptimizerKernels {
    void (*all)(const Step<Rule>& step, const TreeSources& from, SourceType type, std::size_t first, std::size_t last);
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
