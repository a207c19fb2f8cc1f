#pragma once

#include "base/vec.h"
#include "optim/kernels.h"
#include "reduce/touched_rows.h"
#include "reduce/tree_sum.h"

// Reduces gradients and steps an optimizer in one pass, for a rule that steps each number by itself.
namespace sparsepool {
namespace {

// The rule with each of its constants in all lanes of a vector. A rule has nothing but constants.
template <template <class> class Rule>
Rule<Vec> broadcast(const Rule<float>& rule) {
    constexpr std::size_t kNumbers = sizeof(rule) / sizeof(float);
    float numbers[kNumbers];
    Vec vectors[kNumbers];
    __builtin_memcpy(numbers, &rule, sizeof(rule));
    for (std::size_t n = 0; n < kNumbers; ++n) vectors[n] = Vec::all(numbers[n]);
    Rule<Vec> out;
    static_assert(sizeof(out) == sizeof(vectors));
    __builtin_memcpy(&out, vectors, sizeof(out));
    return out;
}

template <template <class> class Rule>
inline void apply(const Rule<Vec>& rule, Vec gradient, Vec& weight, Vec (&state)[Rule<Vec>::kStates]) {
    Rule<Vec>::apply(rule, gradient, weight, state, [](Vec square) { return square.root(); });
}

// Consecutive numbers to be stepped.
struct Span {
    TreeSources from;
    bool rows;           // the sources are rows of a table: 0 is added to the sum, as reduce_rows does
    std::size_t source;  // index of the first number in the sources
    std::size_t tensor;  // and in the tensors
    std::size_t n;
};

// total = the scaled sum of the gradients, kWide vectors side by side.
template <std::size_t kWide, class Tree, class Load>
inline void sum_gradients(Tree tree, const Span& span, Vec scale, const Load& load, Vec (&total)[kWide]) {
    tree_sum(tree, span.from, load, total);
    UNROLL
    for (std::size_t v = 0; v < kWide; ++v) {
        if (span.rows) total[v] = Vec::zero() + total[v];
        total[v] = total[v] * scale;
    }
}

// Steps kWide vectors from number k of the span on.
template <std::size_t kWide, class Tree, class Loader, template <class> class Rule>
inline void step_vecs(Tree tree, Loader loader, const StepTensors& to, const Rule<Vec>& rule, Vec scale,
                      const Span& span, std::size_t k) {
    constexpr std::size_t kStates = Rule<Vec>::kStates;
    Vec gradients[kWide];
    const auto load = [=, first = span.source + k](const Source& source, std::size_t v) {
        return loader.load(source, first + v * Vec::kWidth);
    };
    sum_gradients(tree, span, scale, load, gradients);
    UNROLL
    for (std::size_t v = 0; v < kWide; ++v) {
        const std::size_t i = span.tensor + k + v * Vec::kWidth;
        Vec weight = Vec::load(to.old_weights + i);
        Vec state[kStates];
        UNROLL
        for (std::size_t s = 0; s < kStates; ++s) state[s] = Vec::load(to.states[s] + i);
        apply(rule, gradients[v], weight, state);
        if (to.stream) {
            weight.stream(to.weights + i);
        } else {
            weight.store(to.weights + i);
        }
        UNROLL
        for (std::size_t s = 0; s < Rule<Vec>::kWritten; ++s) state[s].store(to.states[s] + i);
    }
}

// Steps the numbers from k to the end of the span, less than a vector.
template <class Loader, template <class> class Rule>
inline void step_part(Loader loader, const StepTensors& to, const Rule<Vec>& rule, Vec scale, const Span& span,
                      std::size_t k) {
    constexpr std::size_t kStates = Rule<Vec>::kStates;
    const std::size_t i = span.tensor + k;
    const std::size_t n = span.n - k;
    const auto load = [&](const Source& source, std::size_t) { return loader.load_part(source, span.source + k, n); };
    Vec gradients[1];
    sum_gradients(AnyTree{}, span, scale, load, gradients);
    Vec weight = Vec::load_part(to.old_weights + i, n);
    Vec state[kStates];
    UNROLL
    for (std::size_t s = 0; s < kStates; ++s) state[s] = Vec::load_part(to.states[s] + i, n);
    apply(rule, gradients[0], weight, state);
    weight.store_part(to.weights + i, n);
    UNROLL
    for (std::size_t s = 0; s < Rule<Vec>::kWritten; ++s) state[s].store_part(to.states[s] + i, n);
}

template <class Loader, template <class> class Rule>
[[gnu::always_inline]] inline void step_span(Loader loader, const StepTensors& to, const Rule<Vec>& rule,
                                             const Span& span) {
    const Vec scale = Vec::all(to.scale);
    std::size_t k = 0;
    constexpr std::size_t kBlock = 4;  // vectors that are computed side by side
    dispatch_tree(span.from, [&](auto tree) {
        for (; k + kBlock * Vec::kWidth <= span.n; k += kBlock * Vec::kWidth) {
            step_vecs<kBlock>(tree, loader, to, rule, scale, span, k);
        }
        for (; k + Vec::kWidth <= span.n; k += Vec::kWidth) step_vecs<1>(tree, loader, to, rule, scale, span, k);
    });
    if (k < span.n) step_part(loader, to, rule, scale, span, k);
}

template <template <class> class Rule>
void step_all(const Step<Rule>& step, const TreeSources& from, SourceType type, std::size_t first, std::size_t last) {
    const Rule<Vec> rule = broadcast(step.rule);
    dispatch_type(
        type, [&](auto loader) { step_span(loader, step.tensors, rule, {from, false, first, first, last - first}); });
    fence();
}

// Calls visit(r, sources of row r) for the rows that the optimizer steps.
template <std::size_t kStates, class Visit>
void visit_stepped_rows(const StepTensors& to, const RowSources& sources, std::size_t columns, const Block& block,
                        const Visit& visit) {
    if (!to.touched_only) {
        visit_all_rows(sources, columns, block, visit);
        return;
    }
    const auto prefetch = [&](std::size_t r) INLINED {
        for (std::size_t i = r * columns; i < (r + 1) * columns; i += kLine) {
            __builtin_prefetch(to.old_weights + i);
            __builtin_prefetch(to.weights + i, 1);
            for (std::size_t s = 0; s < kStates; ++s) __builtin_prefetch(to.states[s] + i, 1);
        }
    };
    visit_touched_rows(sources, columns, block, prefetch, visit);
}

template <template <class> class Rule>
void step_rows(const Step<Rule>& step, const RowSources& sources, std::size_t columns, const Block& block) {
    const Rule<Vec> rule = broadcast(step.rule);
    dispatch_type(sources.type, [&](auto loader) {
        const auto step_row = [&](std::size_t r, const TreeSources& from) INLINED {
            step_span(loader, step.tensors, rule, {from, true, 0, r * columns, columns});
        };
        visit_stepped_rows<Rule<Vec>::kStates>(step.tensors, sources, columns, block, step_row);
    });
    fence();
}

}  // namespace
}  // namespace sparsepool
