#pragma once

#include <vector>

#include "base/lists.h"
#include "base/matrix.h"
#include "common/crash_point.h"
#include "common/parallel.h"
#include "common/simd.h"
#include "optim/kernels.h"
#include "reduce/sources.h"

// Steps of optimizers on all threads. The sums are those of reduce.h, bit for bit. Each number, or each row, is
// computed by itself, so the number of threads and the way that a tensor is cut into shards change nothing.
namespace sparsepool {

// The member of StepKernels with the kernels of a rule.
template <template <class> class Rule>
using Kernels = OptimizerKernels<Rule> StepKernels::*;

inline bool should_stream(const StepTensors& to, std::size_t rows, std::size_t columns) {
    return !to.touched_only && to.weights != to.old_weights && should_stream(to.weights, rows, columns);
}

// Steps `size` numbers with dense gradients.
template <template <class> class Rule>
void run_step(Kernels<Rule> rule, Step<Rule> step, const Sources& sources, std::size_t size, std::size_t threads) {
    constexpr std::size_t kUnit = 4096;  // floats: a thread's share is full pages
    check_threads(threads);
    step.tensors.stream = should_stream(step.tensors, 1, size / 16 * 16);
    const auto& kernels = simd::kernels<StepKernels>().*rule;
    const JoinPlan joins(sources);
    run_parts(threads, [&](std::size_t part) {
        kernels.all(step, joins.with(sources), joins.source_type(), border(size, kUnit, part, threads),
                    border(size, kUnit, part + 1, threads));
    });
}

// Steps a table with gradients that define only the rows that they touched. Row r belongs to feature first_row + r.
template <template <class> class Rule>
void run_row_step(Kernels<Rule> rule, Step<Rule> step, const std::vector<RowSource>& sources, std::size_t first_row,
                  std::size_t rows, std::size_t columns, std::size_t threads) {
    check_threads(threads);
    step.tensors.stream = should_stream(step.tensors, rows, columns);
    const auto& kernels = simd::kernels<StepKernels>().*rule;
    RowPartition partition(sources, first_row, threads);
    run_parts(threads, [&](std::size_t part) {
        const auto [first_block, second_block] = partition.split_part(part, rows, columns, step.tensors.touched_only);
        kernels.rows(step, partition.sources_of(part), columns, first_block);
        if (part == 0) crash_point("coordinator.mid_step");
        kernels.rows(step, partition.sources_of(part), columns, second_block);
    });
}

}  // namespace sparsepool
