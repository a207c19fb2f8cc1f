#pragma once

#include <vector>

#include "base/lists.h"
#include "base/matrix.h"
#include "common/crash_point.h"
#include "common/parallel.h"
#include "common/simd.h"
#include "optim/kernels.h"
#include "reduce/sources.h"

// The walks over what an optimizer steps. Sums are reduce.h's, bit for bit; each number, or each row, is computed by
// itself, so threads and the way that a tensor is cut in pieces change nothing.
namespace sparsepool {

template <template <class> class Rule>
using Kernels = OptimizerKernels<Rule> StepKernels::*;

inline bool worth_streaming(const Stepped& to, std::size_t rows, std::size_t columns) {
    return !to.touched_only && to.weights != to.old && worth_streaming(to.weights, rows, columns);
}

// `size` numbers.
template <template <class> class Rule>
void walk(Kernels<Rule> rule, Step<Rule> step, const Sources& sources, std::size_t size, std::size_t threads) {
    constexpr std::size_t kUnit = 4096;  // floats: a thread's share is whole pages
    check_threads(threads);
    step.to.stream = worth_streaming(step.to, 1, size / 16 * 16);
    const auto& kernels = simd::kernels<StepKernels>().*rule;
    const Joins joins(sources);
    run_parts(threads, [&](std::size_t part) {
        kernels.all(step, joins.of(sources), joins.held(), border(size, kUnit, part, threads),
                    border(size, kUnit, part + 1, threads));
    });
}

// A table, of which a source defines only the rows that it touched; row r belongs to feature first_row + r.
template <template <class> class Rule>
void walk(Kernels<Rule> rule, Step<Rule> step, const std::vector<RowSource>& sources, std::size_t first_row,
          std::size_t rows, std::size_t columns, std::size_t threads) {
    check_threads(threads);
    step.to.stream = worth_streaming(step.to, rows, columns);
    const auto& kernels = simd::kernels<StepKernels>().*rule;
    RowWalk walks(sources, first_row, threads);
    run_parts(threads, [&](std::size_t part) {
        const auto [before, after] = walks.halves(part, rows, columns, step.to.touched_only);
        kernels.rows(step, walks.of(part), columns, before);
        if (part == 0) crash_point("coordinator.mid_step");
        kernels.rows(step, walks.of(part), columns, after);
    });
}

}  // namespace sparsepool
