#pragma once

// Arithmetic that CPU and CUDA kernels share, to the bit: the order in which gradients are added up (I2) and the
// squares of their norm, and the steps of optimizers. g++ compiles this file with vectors as Number
// (pool/kernels/cpu/base/vec.h), NVRTC with floats. So it includes nothing.

#ifdef __CUDACC__
#define RULE static __device__ __forceinline__
#define EACH_LANE _Pragma("unroll")
#else
#define RULE [[gnu::always_inline]] static inline
#define EACH_LANE _Pragma("GCC unroll 8")
#endif

namespace rules {

// The sum of a node of the tree (pool/kernels/tree.py) that has all its kLeaves leaves, a power of two. leaf(i) returns
// leaf i, join(left, right) the sum of two halves.
template <int kLeaves>
struct Tree {
    template <class Leaf, class Join>
    RULE auto sum(const Leaf& leaf, const Join& join, int first) {
        const auto left = Tree<kLeaves / 2>::sum(leaf, join, first);
        return join(left, Tree<kLeaves / 2>::sum(leaf, join, first + kLeaves / 2));
    }
};

// Four leaves at a time, so that they are loaded side by side.
template <>
struct Tree<4> {
    template <class Leaf, class Join>
    RULE auto sum(const Leaf& leaf, const Join& join, int first) {
        const auto leaf0 = leaf(first);
        const auto leaf1 = leaf(first + 1);
        const auto leaf2 = leaf(first + 2);
        const auto leaf3 = leaf(first + 3);
        return join(join(leaf0, leaf1), join(leaf2, leaf3));
    }
};

template <>
struct Tree<1> {
    template <class Leaf, class Join>
    RULE auto sum(const Leaf& leaf, const Join& /*join*/, int first) {
        return leaf(first);
    }
};

constexpr unsigned kNormChunk = 512;  // numbers of a gradient in one sum; then as many of these sums, and so on

// The sum of the doubles number(0) .. number(count - 1): in eight lanes side by side, then of the lanes along the tree.
template <class Numbers>
RULE double sum_of_chunk(const Numbers& number, unsigned count) {
    constexpr unsigned kLanes = 8;
    double lanes[kLanes] = {};
    unsigned i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        EACH_LANE
        for (unsigned lane = 0; lane < kLanes; ++lane) lanes[lane] += number(i + lane);
    }
    EACH_LANE
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (i + lane < count) lanes[lane] += number(i + lane);
    }
    return Tree<kLanes>::sum([&](int lane) { return lanes[lane]; }, [](double a, double b) { return a + b; }, 0);
}

// Rules by which optimizers step a weight. The fields of a rule are the constants of one step. It has kStates states,
// of which the first kWritten change. `root` is the square root, rounded correctly.

// Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1; weight decay added to the gradient, or decoupled as in Loshchilov
// and Hutter, arXiv 1711.05101).
//
//   g = g + decay * w;   w = shrink * w
//   m = m + (1 - beta1) (g - m);   v = beta2 v + (1 - beta2) g^2
//   w = w - rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//
// States: m, v.
template <class Number>
struct Adam {
    static constexpr int kStates = 2, kWritten = 2;

    Number mean_rate;    // 1 - beta1
    Number square_keep;  // beta2
    Number square_rate;  // 1 - beta2
    Number step_size;    // rate / (1 - beta1^t)
    Number root_scale;   // 1 / sqrt(1 - beta2^t)
    Number epsilon;
    Number decay;
    Number shrink;  // 1, or decoupled 1 - rate * weight decay

    template <class Root>
    RULE void apply(const Adam& step, Number gradient, Number& weight, Number (&state)[kStates], const Root& root) {
        Number& mean = state[0];
        Number& square = state[1];
        gradient = gradient + step.decay * weight;
        weight = weight * step.shrink;
        mean = mean + step.mean_rate * (gradient - mean);
        square = square * step.square_keep + step.square_rate * gradient * gradient;
        weight = weight - step.step_size * mean / (root(square) * step.root_scale + step.epsilon);
    }
};

// nnue-pytorch's RangerLite: Adam with positive-negative momentum (Xie et al., arXiv 2103.17182), whose two means take
// turns. `m` is the mean that this step updates, `o` the one of the step before.
//
//   w = shrink * w;   v = beta2 v + (1 - beta2) g^2;   m = m + (1 - beta1^2) (g - m)
//   w = w - size * ((1 + k) m - k o) / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//
// States: m, v, o.
template <class Number>
struct RangerLite {
    static constexpr int kStates = 3, kWritten = 2;

    Number mean_rate;    // 1 - beta1^2
    Number square_keep;  // beta2
    Number square_rate;  // 1 - beta2
    Number mean_share;   // 1 + k
    Number other_share;  // k
    Number step_size;    // rate / (1 - beta1^e) / sqrt((1 + k)^2 + k^2), where e is t, or t + 1 if that is even
    Number root_scale;   // 1 / sqrt(1 - beta2^t)
    Number epsilon;
    Number shrink;

    template <class Root>
    RULE void apply(const RangerLite& step, Number gradient, Number& weight, Number (&state)[kStates],
                    const Root& root) {
        Number& mean = state[0];
        Number& square = state[1];
        weight = weight * step.shrink;
        square = square * step.square_keep + step.square_rate * gradient * gradient;
        mean = mean + step.mean_rate * (gradient - mean);
        const Number momentum = step.mean_share * mean - step.other_share * state[2];
        weight = weight - step.step_size * momentum / (root(square) * step.root_scale + step.epsilon);
    }
};

// RangerLite followed by lookahead (Zhang et al., arXiv 1907.08610): the slow weights s go a part of the way to the
// fast ones.
//
//   s = fast_share * w + slow_share * s;   w = s
//
// States: m, v, s, o.
template <class Number>
struct RangerLiteLookahead {
    static constexpr int kStates = 4, kWritten = 3;

    RangerLite<Number> step;
    Number fast_share, slow_share;

    template <class Root>
    RULE void apply(const RangerLiteLookahead& rule, Number gradient, Number& weight, Number (&state)[kStates],
                    const Root& root) {
        Number step_state[] = {state[0], state[1], state[3]};
        RangerLite<Number>::apply(rule.step, gradient, weight, step_state, root);
        state[0] = step_state[0];
        state[1] = step_state[1];
        weight = rule.fast_share * weight + rule.slow_share * state[2];
        state[2] = weight;
    }
};

}  // namespace rules
