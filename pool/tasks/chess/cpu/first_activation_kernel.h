#pragma once

#include "base/vec.h"
#include "tasks/chess/cpu/kernels.h"

// From a row of the first layer's outputs to what the next layer reads, and back.
namespace sparsepool::chess {
namespace {

// Numbers that are cut to the multiples of 1 / one below.
struct Grid {
    static constexpr float kJustBelow = 3e-5F;  // steps: of fake_quantization.py

    Vec one, step;

    explicit Grid(float of) : one(Vec::all(of)), step(Vec::all(of > 0 ? 1.0F / of : 0.0F)) {}

    Vec steps(Vec x) const { return (x * one + Vec::all(kJustBelow)).down(); }
};

// How outputs of the first layer are activated.
template <FirstActivation kFirst>
struct First {
    Vec top, factor;
    Grid grid;

    explicit First(const StackLayout& layout)
        : top(Vec::all(layout.largest_sum)), factor(Vec::all(layout.product_factor)), grid(layout.product_one) {}

    // Of clamped ones.
    Vec product(Vec low, Vec high) const {
        if constexpr (kFirst == FirstActivation::kCutPairs) return grid.steps(low * high * factor) * grid.step;
        return low * high;
    }

    // Of the gradient of what `product` returns, that of low * high.
    Vec of_product(Vec grad) const { return kFirst == FirstActivation::kCutPairs ? grad * factor : grad; }
};

// What one place of a product, or of a square, makes of the gradient `grad` of its result.
struct Factors {
    Vec low, high;

    Factors(Vec x, Vec y, Vec grad, Vec top)
        : low((grad * y.clipped(top)).where_inside(x, top)), high((grad * x.clipped(top)).where_inside(y, top)) {}
};

Vec squared_clip(Vec x, Vec top) {
    const Vec c = x.clipped(top);
    return c * c;
}

// Of `grad`, that of squared_clip(x).
Vec grad_of_square(Vec x, Vec grad, Vec top) {
    const Vec c = x.clipped(top);
    return (grad * (c + c)).where_inside(x, top);
}

// run(place, load, store) for all of `size` places, a register at a time; the last one may be filled in part.
template <class Run>
void by_registers(std::size_t size, const Run& run) {
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

// One side's inputs of the next layer; l1 / 2 of them if pairwise, else l1.
template <FirstActivation kFirst>
void activate_row(const float* row, std::size_t l1, const First<kFirst>& how, float* to) {
    const std::size_t half = l1 / 2;
    const Vec top = how.top;
    by_registers(makes_pairs(kFirst) ? half : l1, [&](std::size_t c, auto load, auto store) {
        const Vec x = load(row + c);
        if constexpr (makes_pairs(kFirst)) {
            store(how.product(x.clipped(top), load(row + half + c).clipped(top)), to + c);
        } else if constexpr (kFirst == FirstActivation::kSquared) {
            store(squared_clip(x, top), to + c);
        } else {
            store(x.clipped(top), to + c);
        }
    });
}

// From their gradient to that of the row.
template <FirstActivation kFirst>
void spread_row(const float* row, std::size_t l1, const First<kFirst>& how, const float* grad, float* to, bool stream) {
    const std::size_t half = l1 / 2;
    const Vec top = how.top;
    by_registers(makes_pairs(kFirst) ? half : l1, [&](std::size_t c, auto load, auto store) {
        const auto write = [&](Vec v, float* place) { stream ? v.stream(place) : store(v, place); };
        const Vec x = load(row + c);
        const Vec g = load(grad + c);
        if constexpr (makes_pairs(kFirst)) {
            const Factors factors(x, load(row + half + c), how.of_product(g), top);
            write(factors.low, to + c);
            write(factors.high, to + half + c);
        } else if constexpr (kFirst == FirstActivation::kSquared) {
            write(grad_of_square(x, g, top), to + c);
        } else {
            write(g.where_inside(x, top), to + c);
        }
    });
}

// run(a constant that is the activation)
template <class Run>
void with_activation(FirstActivation first, const Run& run) {
    switch (first) {
        case FirstActivation::kPairwise: return run([] { return FirstActivation::kPairwise; });
        case FirstActivation::kCutPairs: return run([] { return FirstActivation::kCutPairs; });
        case FirstActivation::kSquared: return run([] { return FirstActivation::kSquared; });
        case FirstActivation::kClipped: return run([] { return FirstActivation::kClipped; });
    }
}

// Rows of inputs, own side first: [samples][stride]. Padded places are zero.
void make_inputs(const StackLayout& layout, const StackBlock& block, float* inputs) {
    const std::size_t side = layout.inputs / 2;
    with_activation(layout.first, [&](auto first) {
        const First<first()> how(layout);
        for (std::size_t i = 0; i < block.samples; ++i) {
            float* to = inputs + i * layout.stride;
            activate_row(block.own + i * layout.l1, layout.l1, how, to);
            activate_row(block.opponent + i * layout.l1, layout.l1, how, to + side);
            for (std::size_t c = layout.inputs; c < layout.padded; ++c) to[c] = 0.0F;
        }
    });
}

// The other way; rows may be streamed if their length allows it.
void spread_inputs(const StackLayout& layout, const StackBlock& block, const float* grad_inputs, float* grad_own,
                   float* grad_opponent, bool stream) {
    const std::size_t side = layout.inputs / 2;
    with_activation(layout.first, [&](auto first) {
        const First<first()> how(layout);
        for (std::size_t i = 0; i < block.samples; ++i) {
            const std::size_t row = i * layout.l1;
            const float* grad = grad_inputs + i * layout.stride;
            spread_row(block.own + row, layout.l1, how, grad, grad_own + row, stream);
            spread_row(block.opponent + row, layout.l1, how, grad + side, grad_opponent + row, stream);
        }
    });
}

}  // namespace
}  // namespace sparsepool::chess
