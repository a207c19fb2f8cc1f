#pragma once

#include "base/vec.h"
#include "optim/kernels.h"
#include "reduce/touched_rows.h"
#include "reduce/tree_sum.h"

// A step along with the sum of its gradient, in one pass, for a rule that steps each number by itself.
namespace sparsepool {
namespace {

// The rule with each constant in all places of a vector.
template <template <class> class Rule>
Rule<Vec> spread(const Rule<float>& by) {
    constexpr std::size_t kNumbers = sizeof(by) / sizeof(float);
    float numbers[kNumbers];
    Vec each[kNumbers];
    __builtin_memcpy(numbers, &by, sizeof(by));
    for (std::size_t n = 0; n < kNumbers; ++n) each[n] = Vec::all(numbers[n]);
    Rule<Vec> out;
    static_assert(sizeof(out) == sizeof(each));
    __builtin_memcpy(&out, each, sizeof(out));
    return out;
}

template <template <class> class Rule>
inline void apply(const Rule<Vec>& by, Vec gradient, Vec& weight, Vec (&state)[Rule<Vec>::kStates]) {
    Rule<Vec>::apply(by, gradient, weight, state, [](Vec square) { return square.root(); });
}

// `n` numbers from place i of the tensors on, from place `at` of the sources on.
struct Span {
    Addends from;
    bool rows;  // 0 is added to the sum, as reduce_rows does
    std::size_t at, i, n;
};

template <std::size_t kWide, class Sources, class Load>
inline void gradients_of(Sources count, const Span& span, Vec scale, const Load& load, Vec (&total)[kWide]) {
    tree_sum(count, span.from, load, total);
    UNROLL
    for (std::size_t v = 0; v < kWide; ++v) {
        if (span.rows) total[v] = Vec::zero() + total[v];
        total[v] = total[v] * scale;
    }
}

// kWide vectors from number k of the span on.
template <std::size_t kWide, class Sources, class Numbers, template <class> class Rule>
inline void step_vecs(Sources count, Numbers numbers, const Stepped& to, const Rule<Vec>& by, Vec scale,
                      const Span& span, std::size_t k) {
    constexpr std::size_t kStates = Rule<Vec>::kStates;
    Vec gradients[kWide];
    const auto load = [=, at = span.at + k](const Source& source, std::size_t v) {
        return numbers.load(source, at + v * Vec::kWidth);
    };
    gradients_of(count, span, scale, load, gradients);
    UNROLL
    for (std::size_t v = 0; v < kWide; ++v) {
        const std::size_t place = span.i + k + v * Vec::kWidth;
        Vec weight = Vec::load(to.old + place);
        Vec state[kStates];
        UNROLL
        for (std::size_t s = 0; s < kStates; ++s) state[s] = Vec::load(to.states[s] + place);
        apply(by, gradients[v], weight, state);
        if (to.stream) {
            weight.stream(to.weights + place);
        } else {
            weight.store(to.weights + place);
        }
        UNROLL
        for (std::size_t s = 0; s < Rule<Vec>::kWritten; ++s) state[s].store(to.states[s] + place);
    }
}

template <class Numbers, template <class> class Rule>
inline void step_part(Numbers numbers, const Stepped& to, const Rule<Vec>& by, Vec scale, const Span& span,
                      std::size_t k) {
    constexpr std::size_t kStates = Rule<Vec>::kStates;
    const std::size_t place = span.i + k;
    const std::size_t n = span.n - k;
    const auto load = [&](const Source& source, std::size_t) { return numbers.load_part(source, span.at + k, n); };
    Vec gradients[1];
    gradients_of(AnyCount{}, span, scale, load, gradients);
    Vec weight = Vec::load_part(to.old + place, n);
    Vec state[kStates];
    UNROLL
    for (std::size_t s = 0; s < kStates; ++s) state[s] = Vec::load_part(to.states[s] + place, n);
    apply(by, gradients[0], weight, state);
    weight.store_part(to.weights + place, n);
    UNROLL
    for (std::size_t s = 0; s < Rule<Vec>::kWritten; ++s) state[s].store_part(to.states[s] + place, n);
}

template <class Numbers, template <class> class Rule>
[[gnu::always_inline]] inline void step_span(Numbers numbers, const Stepped& to, const Rule<Vec>& by,
                                             const Span& span) {
    const Vec scale = Vec::all(to.scale);
    std::size_t k = 0;
    constexpr std::size_t kBlock = 4;  // of sums that are made side by side
    by_count(span.from, [&](auto count) {
        for (; k + kBlock * Vec::kWidth <= span.n; k += kBlock * Vec::kWidth) {
            step_vecs<kBlock>(count, numbers, to, by, scale, span, k);
        }
        for (; k + Vec::kWidth <= span.n; k += Vec::kWidth) step_vecs<1>(count, numbers, to, by, scale, span, k);
    });
    if (k < span.n) step_part(numbers, to, by, scale, span, k);
}

template <template <class> class Rule>
void step_all(const Step<Rule>& step, const Addends& from, Held held, std::size_t first, std::size_t last) {
    const Rule<Vec> by = spread(step.by);
    by_held(held, [&](auto numbers) { step_span(numbers, step.to, by, {from, false, first, first, last - first}); });
    fence();
}

// row(r, rows of the sources that touched it) for the rows that the optimizer steps.
template <std::size_t kStates, class Row>
void each_stepped_row(const Stepped& to, const RowSources& sources, std::size_t columns, const Block& block,
                      const Row& row) {
    if (!to.touched_only) {
        each_row(sources, columns, block, row);
        return;
    }
    const auto soon = [&](std::size_t r) INLINED {
        for (std::size_t place = r * columns; place < (r + 1) * columns; place += kLine) {
            __builtin_prefetch(to.old + place);
            __builtin_prefetch(to.weights + place, 1);
            for (std::size_t s = 0; s < kStates; ++s) __builtin_prefetch(to.states[s] + place, 1);
        }
    };
    each_touched_row(sources, columns, block, soon, row);
}

template <template <class> class Rule>
void step_rows(const Step<Rule>& step, const RowSources& sources, std::size_t columns, const Block& block) {
    const Rule<Vec> by = spread(step.by);
    by_held(sources.held, [&](auto numbers) {
        const auto one_row = [&](std::size_t r, const Addends& from)
                                 INLINED { step_span(numbers, step.to, by, {from, true, 0, r * columns, columns}); };
        each_stepped_row<Rule<Vec>::kStates>(step.to, sources, columns, block, one_row);
    });
    fence();
}

}  // namespace
}  // namespace sparsepool
