#include "optim/step.h"

#include "base/lists.h"
#include "base/matrix.h"
#include "common/crash_point.h"
#include "common/parallel.h"
#include "fold/sources.h"

namespace sparsepool {
namespace {

constexpr std::size_t kUnit = 4096;  // floats: a thread's share is whole pages

Stepped stepped(const StepTensors& tensors, std::size_t rows, std::size_t columns, bool touched_only) {
    return {tensors.weights,
            tensors.old,
            {tensors.states[0], tensors.states[1]},
            static_cast<float>(tensors.scale),
            touched_only,
            !touched_only && tensors.weights != tensors.old && worth_streaming(tensors.weights, rows, columns)};
}

}  // namespace

Stepped stepped(const StepTensors& tensors, const DenseGradient& gradient) {
    return stepped(tensors, 1, gradient.size / 16 * 16, false);
}

Stepped stepped(const StepTensors& tensors, const RowGradient& gradient) {
    return stepped(tensors, gradient.rows, gradient.columns, gradient.touched_only);
}

template <class Step>
void walk(const OptimizerKernels<Step>& kernels, const Step& step, const DenseGradient& gradient, std::size_t threads) {
    check_threads(threads);
    const Joins joins(gradient.sources);
    run_parts(threads, [&](std::size_t part) {
        kernels.all(step, joins.of(gradient.sources), joins.held(), border(gradient.size, kUnit, part, threads),
                    border(gradient.size, kUnit, part + 1, threads));
    });
}

template <class Step>
void walk(const OptimizerKernels<Step>& kernels, const Step& step, const RowGradient& gradient, std::size_t threads) {
    check_threads(threads);
    const std::size_t columns = gradient.columns;
    RowWalk rows(gradient.sources, gradient.first_row, threads);
    run_parts(threads, [&](std::size_t part) {
        const auto [before, after] = rows.halves(part, gradient.rows, columns, gradient.touched_only);
        kernels.rows(step, rows.of(part), columns, before);
        if (part == 0) crash_point("coordinator.mid_step");
        kernels.rows(step, rows.of(part), columns, after);
    });
}

template void walk(const OptimizerKernels<AdamStep>&, const AdamStep&, const DenseGradient&, std::size_t);
template void walk(const OptimizerKernels<AdamStep>&, const AdamStep&, const RowGradient&, std::size_t);
template void walk(const OptimizerKernels<AdagradStep>&, const AdagradStep&, const DenseGradient&, std::size_t);
template void walk(const OptimizerKernels<AdagradStep>&, const AdagradStep&, const RowGradient&, std::size_t);
template void walk(const OptimizerKernels<FtrlStep>&, const FtrlStep&, const DenseGradient&, std::size_t);
template void walk(const OptimizerKernels<FtrlStep>&, const FtrlStep&, const RowGradient&, std::size_t);
template void walk(const OptimizerKernels<ClippedAdamWStep>&, const ClippedAdamWStep&, const DenseGradient&,
                   std::size_t);
template void walk(const OptimizerKernels<ClippedAdamWStep>&, const ClippedAdamWStep&, const RowGradient&, std::size_t);

}  // namespace sparsepool
