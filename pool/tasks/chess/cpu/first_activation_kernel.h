#pragma once

#include "base/vec.h"
#include "tasks/chess/cpu/kernels.h"

// The activation of the first layer: from a row of its outputs to the inputs of the next layer, and backward.
namespace sparsepool::chess {
namespace {

// Rounds numbers down to multiples of 1 / one.
struct Grid {
    static constexpr float kTolerance =
        3e-5F;  // in steps, as in fake_quantization.py: a number just below a step is it

    Vec one, step;

    explicit Grid(float steps_of_one)
        : one(Vec::all(steps_of_one)), step(Vec::all(steps_of_one > 0 ? 1.0F / steps_of_one : 0.0F)) {}

    // How many steps a number has, rounded down.
    Vec steps(Vec x) const { return (x * one + Vec::all(kTolerance)).down(); }
};

// The constants of an activation of the first layer.
template <FirstActivation kFirst>
struct ActivationOf {
    Vec top, factor;
    Grid grid;

    explicit ActivationOf(const StackLayout& layout)
        : top(Vec::all(layout.largest_sum)), factor(Vec::all(layout.product_factor)), grid(layout.product_one) {}

    // The product of two clamped numbers.
    Vec product(Vec low, Vec high) const {
        if constexpr (kFirst == FirstActivation::kCutPairs) return grid.steps(low * high * factor) * grid.step;
        return low * high;
    }

    // The gradient of low * high, from the gradient of product(low, high).
    Vec product_gradient(Vec grad) const { return kFirst == FirstActivation::kCutPairs ? grad * factor : grad; }
};

// The gradients of both factors of x.clipped(top) * y.clipped(top), from the gradient of the product.
struct FactorGradients {
    Vec low, high;

    FactorGradients(Vec x, Vec y, Vec grad, Vec top)
        : low((grad * y.clipped(top)).where_inside(x, top)), high((grad * x.clipped(top)).where_inside(y, top)) {}
};

Vec clipped_square(Vec x, Vec top) {
    const Vec clipped = x.clipped(top);
    return clipped * clipped;
}

// The gradient of x, from the gradient of clipped_square(x).
Vec backward_clipped_square(Vec x, Vec grad, Vec top) {
    const Vec clipped = x.clipped(top);
    return (grad * (clipped + clipped)).where_inside(x, top);
}

// Calls run(index, load, store) for each vector of `size` numbers. The last vector may have fewer numbers.
template <class Run>
void visit_vectors(std::size_t size, const Run& run) {
    const auto load = [](const float* from) { return Vec::load(from); };
    const auto store = [](Vec v, float* to) { v.store(to); };
    std::size_t c = 0;
    for (; c + Vec::kWidth <= size; c += Vec::kWidth) run(c, load, store);
    if (c < size) {
        const std::size_t n = size - c;
        run(
            c, [n](const float* from) { return Vec::load_part(from, n); },
            [n](Vec v, float* to) { v.store_part(to, n); });
    }
}

// Computes the next layer's inputs of one side: l1 / 2 of them for products of pairs, else l1.
template <FirstActivation kFirst>
void activate_row(const float* row, std::size_t l1, const ActivationOf<kFirst>& activation, float* to) {
    const std::size_t half = l1 / 2;
    const Vec top = activation.top;
    visit_vectors(makes_pairs(kFirst) ? half : l1, [&](std::size_t c, auto load, auto store) {
        const Vec x = load(row + c);
        if constexpr (makes_pairs(kFirst)) {
            store(activation.product(x.clipped(top), load(row + half + c).clipped(top)), to + c);
        } else if constexpr (kFirst == FirstActivation::kSquared) {
            store(clipped_square(x, top), to + c);
        } else {
            store(x.clipped(top), to + c);
        }
    });
}

// Computes the gradient of a row from that of the next layer's inputs.
template <FirstActivation kFirst>
void backward_row(const float* row, std::size_t l1, const ActivationOf<kFirst>& activation, const float* grad,
                  float* to, bool stream) {
    const std::size_t half = l1 / 2;
    const Vec top = activation.top;
    visit_vectors(makes_pairs(kFirst) ? half : l1, [&](std::size_t c, auto load, auto store) {
        const auto write = [&](Vec v, float* out) {
            if (stream) {
                v.stream(out);
            } else {
                store(v, out);
            }
        };
        const Vec x = load(row + c);
        const Vec g = load(grad + c);
        if constexpr (makes_pairs(kFirst)) {
            const FactorGradients factors(x, load(row + half + c), activation.product_gradient(g), top);
            write(factors.low, to + c);
            write(factors.high, to + half + c);
        } else if constexpr (kFirst == FirstActivation::kSquared) {
            write(backward_clipped_square(x, g, top), to + c);
        } else {
            write(g.where_inside(x, top), to + c);
        }
    });
}

// Calls run(f), where f() returns the activation as a constant expression.
template <class Run>
void dispatch_activation(FirstActivation first, const Run& run) {
    switch (first) {
        case FirstActivation::kPairwise: return run([] { return FirstActivation::kPairwise; });
        case FirstActivation::kCutPairs: return run([] { return FirstActivation::kCutPairs; });
        case FirstActivation::kSquared: return run([] { return FirstActivation::kSquared; });
        case FirstActivation::kClipped: return run([] { return FirstActivation::kClipped; });
    }
}

// Computes the next layer's inputs [samples][stride], own side first. Padding is zero.
void activate_rows(const StackLayout& layout, const StackBlock& block, float* inputs) {
    const std::size_t side = layout.inputs / 2;
    dispatch_activation(layout.first, [&](auto first) {
        const ActivationOf<first()> activation(layout);
        for (std::size_t i = 0; i < block.samples; ++i) {
            float* to = inputs + i * layout.stride;
            activate_row(block.own + i * layout.l1, layout.l1, activation, to);
            activate_row(block.opponent + i * layout.l1, layout.l1, activation, to + side);
            for (std::size_t c = layout.inputs; c < layout.padded; ++c) to[c] = 0.0F;
        }
    });
}

// Computes the gradients of the first layer's outputs from those of the next layer's inputs. `stream`: stores bypass
// the caches; the rows must be aligned.
void backward_rows(const StackLayout& layout, const StackBlock& block, const float* grad_inputs, float* grad_own,
                   float* grad_opponent, bool stream) {
    const std::size_t side = layout.inputs / 2;
    dispatch_activation(layout.first, [&](auto first) {
        const ActivationOf<first()> activation(layout);
        for (std::size_t i = 0; i < block.samples; ++i) {
            const std::size_t row = i * layout.l1;
            const float* grad = grad_inputs + i * layout.stride;
            backward_row(block.own + row, layout.l1, activation, grad, grad_own + row, stream);
            backward_row(block.opponent + row, layout.l1, activation, grad + side, grad_opponent + row, stream);
        }
    });
}

}  // namespace
}  // namespace sparsepool::chess
