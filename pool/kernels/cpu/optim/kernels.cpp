#include "optim/kernels.h"

#include "common/isa.h"
#include "optim/step_kernel.h"

// Row-wise Adagrad: one accumulator a row, so a row's gradient is summed up twice, for its squares and for the step.
namespace sparsepool {
namespace {

constexpr std::size_t kLineVecs = kLine / Vec::kWidth;

// The sum for one vector of a row, from column k on; beyond the row it is zero.
template <class Numbers>
inline void row_gradient(Numbers numbers, const Addends& from, const Vec scale, std::size_t k, std::size_t columns,
                         Vec (&total)[1]) {
    const Span span{from, true, 0, 0, columns};
    const std::size_t n = columns - k;
    if (n >= Vec::kWidth) {
        by_count(from, [&](auto count) {
            gradients_of(
                count, span, scale, [=](const Source& source, std::size_t) { return numbers.load(source, k); }, total);
        });
    } else {
        gradients_of(
            AnyCount{}, span, scale, [=](const Source& source, std::size_t) { return numbers.load_part(source, k, n); },
            total);
    }
}

// In 16 lanes, which then are added up by halves: the same order for vectors of any width.
template <class Numbers>
inline float sum_of_squares(Numbers numbers, const Step<rules::Adagrad>& step, const Addends& from, const float* old,
                            std::size_t columns) {
    const Vec scale = Vec::all(step.to.scale);
    const Vec decay = Vec::all(step.by.decay);
    Vec lanes[kLineVecs];
    for (Vec& lane : lanes) lane = Vec::zero();
    for (std::size_t k = 0; k < columns; k += Vec::kWidth) {
        Vec gradient[1];
        row_gradient(numbers, from, scale, k, columns, gradient);
        const std::size_t n = columns - k;
        const Vec weight = n >= Vec::kWidth ? Vec::load(old + k) : Vec::load_part(old + k, n);
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

void rowwise_adagrad(const Step<rules::Adagrad>& step, const RowSources& sources, std::size_t columns,
                     const Block& block) {
    const Stepped& to = step.to;
    const Vec scale = Vec::all(to.scale);
    const Vec decay = Vec::all(step.by.decay);
    const auto soon = [&](std::size_t r) INLINED {
        for (std::size_t place = r * columns; place < (r + 1) * columns; place += kLine) {
            __builtin_prefetch(to.old + place);
            __builtin_prefetch(to.weights + place, 1);
        }
        __builtin_prefetch(to.states[0] + r, 1);
    };
    by_held(sources.held, [&](auto numbers) {
        const auto one_row = [&](std::size_t r, const Addends& from) INLINED {
            const float* old = to.old + r * columns;
            float* weights = to.weights + r * columns;
            float& accumulator = to.states[0][r];
            accumulator += sum_of_squares(numbers, step, from, old, columns) / static_cast<float>(columns);
            const Vec rate = Vec::all(step.by.rate / (__builtin_sqrtf(accumulator) + step.by.epsilon));
            for (std::size_t k = 0; k < columns; k += Vec::kWidth) {
                Vec gradient[1];
                row_gradient(numbers, from, scale, k, columns, gradient);
                const std::size_t n = columns - k;
                if (n >= Vec::kWidth) {
                    const Vec weight = Vec::load(old + k);
                    (weight - rate * (gradient[0] + decay * weight)).store(weights + k);
                } else {
                    const Vec weight = Vec::load_part(old + k, n);
                    (weight - rate * (gradient[0] + decay * weight)).store_part(weights + k, n);
                }
            }
        };
        if (to.touched_only) {
            each_touched_row(sources, columns, block, soon, one_row);
        } else {
            each_row(sources, columns, block, one_row);
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
