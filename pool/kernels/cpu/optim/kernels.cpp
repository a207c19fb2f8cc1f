#include "optim/kernels.h"

#include "common/isa.h"
#include "optim/step_kernel.h"

// Row-wise Adagrad has one accumulator for each row. So a row's gradient is reduced twice: for its squares, then for
// the step.
namespace sparsepool {
namespace {

constexpr std::size_t kLineVecs = kLine / Vec::kWidth;

// The gradient of one vector of a row, from column k on. Lanes beyond the row are zero.
template <class Loader>
inline void row_gradient(Loader loader, const TreeSources& from, const Vec scale, std::size_t k, std::size_t columns,
                         Vec (&total)[1]) {
    const Span span{from, true, 0, 0, columns};
    const std::size_t n = columns - k;
    if (n >= Vec::kWidth) {
        dispatch_tree(from, [&](auto tree) {
            sum_gradients(
                tree, span, scale, [=](const Source& source, std::size_t) { return loader.load(source, k); }, total);
        });
    } else {
        sum_gradients(
            AnyTree{}, span, scale, [=](const Source& source, std::size_t) { return loader.load_part(source, k, n); },
            total);
    }
}

// The sum of the squares of a row's gradient: in 16 lanes, which are then added by halves. The same order for vectors
// of any width.
template <class Loader>
inline float sum_of_squares(Loader loader, const Step<rules::Adagrad>& step, const TreeSources& from,
                            const float* old_weights, std::size_t columns) {
    const Vec scale = Vec::all(step.tensors.scale);
    const Vec decay = Vec::all(step.rule.decay);
    Vec lanes[kLineVecs];
    for (Vec& lane : lanes) lane = Vec::zero();
    for (std::size_t k = 0; k < columns; k += Vec::kWidth) {
        Vec gradient[1];
        row_gradient(loader, from, scale, k, columns, gradient);
        const std::size_t n = columns - k;
        const Vec weight = n >= Vec::kWidth ? Vec::load(old_weights + k) : Vec::load_part(old_weights + k, n);
        gradient[0] = gradient[0] + decay * weight;
        Vec& lane = lanes[k / Vec::kWidth % kLineVecs];
        lane = lane + gradient[0] * gradient[0];
    }
    float sums[kLine];
    for (std::size_t v = 0; v < kLineVecs; ++v) lanes[v].store(sums + v * Vec::kWidth);
    for (std::size_t half = kLine / 2; half > 0; half /= 2) {
        for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    return sums[0];
}

// Adds the mean of a row's squared gradient to its accumulator, then steps the row.
void rowwise_adagrad(const Step<rules::Adagrad>& step, const RowSources& sources, std::size_t columns,
                     const Block& block) {
    const StepTensors& to = step.tensors;
    const Vec scale = Vec::all(to.scale);
    const Vec decay = Vec::all(step.rule.decay);
    const auto prefetch = [&](std::size_t r) INLINED {
        for (std::size_t i = r * columns; i < (r + 1) * columns; i += kLine) {
            __builtin_prefetch(to.old_weights + i);
            __builtin_prefetch(to.weights + i, 1);
        }
        __builtin_prefetch(to.states[0] + r, 1);
    };
    dispatch_type(sources.type, [&](auto loader) {
        const auto step_row = [&](std::size_t r, const TreeSources& from) INLINED {
            const float* old_weights = to.old_weights + r * columns;
            float* weights = to.weights + r * columns;
            float& accumulator = to.states[0][r];
            accumulator += sum_of_squares(loader, step, from, old_weights, columns) / static_cast<float>(columns);
            const Vec rate = Vec::all(step.rule.rate / (__builtin_sqrtf(accumulator) + step.rule.epsilon));
            for (std::size_t k = 0; k < columns; k += Vec::kWidth) {
                Vec gradient[1];
                row_gradient(loader, from, scale, k, columns, gradient);
                const std::size_t n = columns - k;
                if (n >= Vec::kWidth) {
                    const Vec weight = Vec::load(old_weights + k);
                    (weight - rate * (gradient[0] + decay * weight)).store(weights + k);
                } else {
                    const Vec weight = Vec::load_part(old_weights + k, n);
                    (weight - rate * (gradient[0] + decay * weight)).store_part(weights + k, n);
                }
            }
        };
        if (to.touched_only) {
            visit_touched_rows(sources, columns, block, prefetch, step_row);
        } else {
            visit_all_rows(sources, columns, block, step_row);
        }
    });
}

}  // namespace

const StepKernels StepKernels::SPARSEPOOL_ISA{
    .adam = {step_all<rules::Adam>, step_rows<rules::Adam>},
    .ranger_lite = {step_all<rules::RangerLite>, step_rows<rules::RangerLite>},
    .ranger_lite_lookahead = {step_all<rules::RangerLiteLookahead>, step_rows<rules::RangerLiteLookahead>},
    .clipped_adamw = {step_all<rules::ClippedAdamW>, step_rows<rules::ClippedAdamW>},
    .adagrad = {step_all<rules::Adagrad>, rowwise_adagrad},
    .ftrl = {step_all<rules::Ftrl>, step_rows<rules::Ftrl>},
};

}  // namespace sparsepool
