#pragma once

#include "tasks/stockfish/native/kernels.h"
#include "vector/small_matrix.h"

// One block of samples through the layer stack of its bucket, forward and backward; layer_stacks.h has the maths.
//
// The products that enter fc_0 are made here, block by block, and never leave the second cache.
namespace sparsepool::stockfish {
namespace {

// product[c] = clipped(row[c]) * clipped(row[half + c])
void multiply_halves(const float* row, std::size_t half, float* product) {
    std::size_t c = 0;
    for (; c + Vec::kWidth <= half; c += Vec::kWidth) {
        (Vec::load(row + c).clipped() * Vec::load(row + half + c).clipped()).store(product + c);
    }
    if (c < half) {
        const std::size_t n = half - c;
        (Vec::load_part(row + c, n).clipped() * Vec::load_part(row + half + c, n).clipped()).store_part(product + c, n);
    }
}

// Inputs of fc_0: [samples][stride]. Places from l1 to padded are zero.
void stack_inputs(const StackBlock& block, float* inputs) {
    const std::size_t half = block.l1 / 2;
    for (std::size_t i = 0; i < block.samples; ++i) {
        float* to = inputs + i * block.stride;
        multiply_halves(block.own + i * block.l1, half, to);
        multiply_halves(block.opponent + i * block.l1, half, to + half);
        for (std::size_t c = block.l1; c < block.padded; ++c) to[c] = 0.0F;
    }
}

// The next block's rows, which follow this one's. Fetched during the products they cost 2 ms less a direction at
// 16,384 samples and l1 = 256: the hardware's own prefetching ends at each page.
Ahead next_block(const StackBlock& block) {
    const std::size_t size = block.samples * block.l1;
    return {block.own + size, block.opponent + size, size / 16};
}

// Inputs of fc_1: squares, then the outputs of fc_0 themselves, clipped. [samples][kHidden]
void stack_hidden(const StackBlock& block, float* hidden) {
    const Vec shrink = Vec::all(kFloor);
    for (std::size_t i = 0; i < block.samples; ++i) {
        for (std::size_t c = 0; c < kFirst; c += Vec::kWidth) {
            const Vec y = Vec::load(block.first + i * kFirst + c);
            (y * y * shrink).clipped().store(hidden + i * kHidden + c);
            y.clipped().store(hidden + i * kHidden + kFirst + c);
        }
        hidden[i * kHidden + kPaired] = 0.0F;
        hidden[i * kHidden + kHidden - 1] = 0.0F;
    }
}

// Sum of clipped(second) * fc_2: both halves' products added, then by halves down to one.
float dot_second(const float* second, const float* weight) {
    constexpr std::size_t kHalf = kSecond / 2;
    float terms[kHalf];
    for (std::size_t c = 0; c < kHalf; c += Vec::kWidth) {
        const Vec low = Vec::load(second + c).clipped() * Vec::load(weight + c);
        const Vec high = Vec::load(second + kHalf + c).clipped() * Vec::load(weight + kHalf + c);
        (low + high).store(terms + c);
    }
    for (std::size_t n = kHalf / 2; n > 0; n /= 2)
        for (std::size_t c = 0; c < n; ++c) terms[c] += terms[n + c];
    return terms[0];
}

void stack_forward(const StackWeights& weights, const StackBlock& block, float* out) {
    float* inputs = block.scratch;
    float* hidden = inputs + kBlock * block.stride;
    stack_inputs(block, inputs);
    multiply({inputs, block.stride}, block.samples, block.l1, {weights.fc_0_transposed, kFirst}, kFirst,
             weights.fc_0_bias, block.first, kFirst, next_block(block));
    stack_hidden(block, hidden);
    multiply({hidden, kHidden}, block.samples, kHidden, {weights.fc_1_transposed, kSecond}, kSecond, weights.fc_1_bias,
             block.second, kSecond);
    for (std::size_t i = 0; i < block.samples; ++i) {
        out[i] = dot_second(block.second + i * kSecond, weights.fc_2) + weights.fc_2_bias +
                 block.first[i * kFirst + kPaired];
    }
}

// grad_second [samples][kSecond], and the sums of fc_2 and of the bias of fc_1.
void backward_second(const StackWeights& weights, const StackBlock& block, const float* grad,
                     const StackGradients& sums, float* grad_second) {
    for (std::size_t i = 0; i < block.samples; ++i) {
        const Vec g = Vec::all(grad[i]);
        *sums.fc_2_bias += grad[i];
        for (std::size_t c = 0; c < kSecond; c += Vec::kWidth) {
            const Vec z = Vec::load(block.second + i * kSecond + c);
            (Vec::load(sums.fc_2 + c) + g * z.clipped()).store(sums.fc_2 + c);
            const Vec d = (g * Vec::load(weights.fc_2 + c)).where_inside(z);
            d.store(grad_second + i * kSecond + c);
            (Vec::load(sums.fc_1_bias + c) + d).store(sums.fc_1_bias + c);
        }
    }
}

// From the gradient of fc_1's inputs to that of fc_0's outputs, in grad_first [samples][kFirst].
void backward_hidden(const StackBlock& block, const float* grad, const float* grad_hidden, const StackGradients& sums,
                     float* grad_first) {
    const Vec shrink = Vec::all(kFloor);
    const Vec twice = Vec::all(2.0F * kFloor);
    for (std::size_t i = 0; i < block.samples; ++i) {
        float* to = grad_first + i * kFirst;
        for (std::size_t c = 0; c < kFirst; c += Vec::kWidth) {
            const Vec y = Vec::load(block.first + i * kFirst + c);
            const Vec squared = (Vec::load(grad_hidden + i * kHidden + c) * (twice * y)).where_inside(y * y * shrink);
            (squared + Vec::load(grad_hidden + i * kHidden + kFirst + c).where_inside(y)).store(to + c);
        }
        to[kPaired] = grad[i];
        for (std::size_t c = 0; c < kFirst; c += Vec::kWidth) {
            (Vec::load(sums.fc_0_bias + c) + Vec::load(to + c)).store(sums.fc_0_bias + c);
        }
    }
}

// The gradient of both factors of a product.
struct Factors {
    Vec low, high;

    Factors(Vec x, Vec y, Vec grad)
        : low((grad * y.clipped()).where_inside(x)), high((grad * x.clipped()).where_inside(y)) {}
};

// Backward of multiply_halves.
void spread_halves(const float* row, std::size_t half, const float* grad, float* out, bool stream) {
    std::size_t c = 0;
    for (; c + Vec::kWidth <= half; c += Vec::kWidth) {
        const Factors factors(Vec::load(row + c), Vec::load(row + half + c), Vec::load(grad + c));
        if (stream) {
            factors.low.stream(out + c);
            factors.high.stream(out + half + c);
        } else {
            factors.low.store(out + c);
            factors.high.store(out + half + c);
        }
    }
    if (c < half) {
        const std::size_t n = half - c;
        const Factors factors(Vec::load_part(row + c, n), Vec::load_part(row + half + c, n),
                              Vec::load_part(grad + c, n));
        factors.low.store_part(out + c, n);
        factors.high.store_part(out + half + c, n);
    }
}

void stack_backward(const StackWeights& weights, const StackBlock& block, const float* grad, const StackGradients& sums,
                    float* grad_own, float* grad_opponent, bool stream) {
    float* inputs = block.scratch;
    float* grad_inputs = inputs + kBlock * block.stride;
    float* hidden = grad_inputs + kBlock * block.stride;
    float* grad_second = hidden + kBlock * kHidden;
    static_assert(kHidden == kSecond, "grad_second takes the place of one more hidden");
    stack_hidden(block, hidden);
    backward_second(weights, block, grad, sums, grad_second);
    accumulate({grad_second, kSecond}, {hidden, kHidden}, block.samples, kSecond, kHidden, sums.fc_1, kHidden);
    float* grad_hidden = hidden;  // in its place: hidden is not needed any more
    multiply({grad_second, kSecond}, block.samples, kSecond, {weights.fc_1, kHidden}, kHidden, nullptr, grad_hidden,
             kHidden);
    float* grad_first = grad_second;
    backward_hidden(block, grad, grad_hidden, sums, grad_first);
    stack_inputs(block, inputs);
    accumulate({grad_first, kFirst}, {inputs, block.stride}, block.samples, kFirst, block.padded, sums.fc_0,
               block.padded, next_block(block));
    multiply({grad_first, kFirst}, block.samples, kFirst, {weights.fc_0, block.padded}, block.padded, nullptr,
             grad_inputs, block.stride);
    const std::size_t half = block.l1 / 2;
    for (std::size_t i = 0; i < block.samples; ++i) {
        const std::size_t row = i * block.l1;
        spread_halves(block.own + row, half, grad_inputs + i * block.stride, grad_own + row, stream);
        spread_halves(block.opponent + row, half, grad_inputs + i * block.stride + half, grad_opponent + row, stream);
    }
    fence();
}

}  // namespace
}  // namespace sparsepool::stockfish
