#pragma once

#include "fold/kernels.h"
#include "fold/touching.h"
#include "fold/tree_sum.h"
#include "vector/vec.h"

// Adam along with the fold of its gradient, in one pass over all of it (adam.h).
namespace sparsepool {
namespace {

// The constants in registers.
struct AdamConstants {
    explicit AdamConstants(const Adam& adam)
        : scale(Vec::all(adam.scale)),
          mean_rate(Vec::all(adam.mean_rate)),
          square_keep(Vec::all(adam.square_keep)),
          square_rate(Vec::all(adam.square_rate)),
          step_size(Vec::all(adam.step_size)),
          root_scale(Vec::all(adam.root_scale)),
          epsilon(Vec::all(adam.epsilon)),
          decay(Vec::all(adam.decay)),
          shrink(Vec::all(adam.shrink)) {}

    Vec scale, mean_rate, square_keep, square_rate, step_size, root_scale, epsilon, decay, shrink;
};

struct AdamState {
    Vec weights, mean, square;
};

inline void adam_numbers(const AdamConstants& c, Vec gradient, AdamState& state) {
    gradient = gradient * c.scale + c.decay * state.weights;
    state.weights = state.weights * c.shrink;
    state.mean = state.mean + c.mean_rate * (gradient - state.mean);
    state.square = state.square * c.square_keep + c.square_rate * gradient * gradient;
    state.weights = state.weights - c.step_size * state.mean / (state.square.root() * c.root_scale + c.epsilon);
}

// `n` numbers from place i of the tensors on, from place `at` of the sources on.
struct AdamSpan {
    Addends from;
    bool rows;  // 0 is added to the sum, as fold_rows does
    std::size_t at, i, n;
};

template <std::size_t kWide, class Sources, class Load>
inline void gradients_of(Sources count, const AdamSpan& span, const Load& load, Vec (&total)[kWide]) {
    tree_sum(count, span.from, load, total);
    if (span.rows) {
        UNROLL
        for (std::size_t v = 0; v < kWide; ++v) total[v] = Vec::zero() + total[v];
    }
}

// kWide vectors from number k of the span on.
template <std::size_t kWide, class Sources>
inline void adam_vecs(Sources count, const Adam& adam, const AdamConstants& c, const AdamSpan& span, std::size_t k) {
    Vec gradients[kWide];
    const auto load = [at = span.at + k](const float* source, std::size_t v) {
        return Vec::load(source + at + v * Vec::kWidth);
    };
    gradients_of(count, span, load, gradients);
    UNROLL
    for (std::size_t v = 0; v < kWide; ++v) {
        const std::size_t place = span.i + k + v * Vec::kWidth;
        AdamState state{Vec::load(adam.old + place), Vec::load(adam.mean + place), Vec::load(adam.square + place)};
        adam_numbers(c, gradients[v], state);
        if (adam.stream) {
            state.weights.stream(adam.weights + place);
        } else {
            state.weights.store(adam.weights + place);
        }
        state.mean.store(adam.mean + place);
        state.square.store(adam.square + place);
    }
}

inline void adam_part(const Adam& adam, const AdamConstants& c, const AdamSpan& span, std::size_t k) {
    const std::size_t place = span.i + k;
    const std::size_t n = span.n - k;
    const auto load = [&](const float* source, std::size_t) { return Vec::load_part(source + span.at + k, n); };
    Vec gradients[1];
    gradients_of(Count<kAny>{}, span, load, gradients);
    AdamState state{Vec::load_part(adam.old + place, n), Vec::load_part(adam.mean + place, n),
                    Vec::load_part(adam.square + place, n)};
    adam_numbers(c, gradients[0], state);
    state.weights.store_part(adam.weights + place, n);
    state.mean.store_part(adam.mean + place, n);
    state.square.store_part(adam.square + place, n);
}

void adam_span(const Adam& adam, const AdamConstants& c, const AdamSpan& span) {
    std::size_t k = 0;
    constexpr std::size_t kBlock = 4;  // of sums that are made side by side
    by_count(span.from, [&](auto count) {
        for (; k + kBlock * Vec::kWidth <= span.n; k += kBlock * Vec::kWidth) {
            adam_vecs<kBlock>(count, adam, c, span, k);
        }
        for (; k + Vec::kWidth <= span.n; k += Vec::kWidth) adam_vecs<1>(count, adam, c, span, k);
    });
    if (k < span.n) adam_part(adam, c, span, k);
}

void adam_all(const Adam& adam, const Addends& from, std::size_t first, std::size_t last) {
    adam_span(adam, AdamConstants(adam), {from, false, first, first, last - first});
    fence();
}

void adam_rows(const Adam& adam, const RowSources& sources, std::size_t columns, const Block& block) {
    const AdamConstants constants(adam);
    each_row(sources, columns, block, [&](std::size_t r, const Addends& from) {
        if (from.count > 0 || !adam.touched_only) {
            adam_span(adam, constants, {from, true, 0, r * columns, columns});
        }
    });
    fence();
}

}  // namespace
}  // namespace sparsepool
