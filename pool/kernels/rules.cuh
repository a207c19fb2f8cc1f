#pragma once

// Rules that the CPU's kernels and the CUDA kernels share, to the bit: the order in which gradients are added up (I2),
// that of the squares of their norm, and how optimizers step. Read by g++, where a Number is a vector
// (pool/kernels/cpu/base/vec.h), and by NVRTC, where it is a float. So it includes nothing.

#ifdef __CUDACC__
#define RULE static __device__ __forceinline__
#define EACH_LANE _Pragma("unroll")
#else
#define RULE [[gnu::always_inline]] static inline
#define EACH_LANE _Pragma("GCC unroll 8")
#endif

namespace rules {

// The sum of a whole node of the tree (pool/kernels/tree.py), of so many leaves, a power of two: leaf(i) gives leaf i,
// join(left, right) the sum of two halves.
template <int kLeaves>
struct Tree {
    template <class Leaf, class Join>
    RULE auto sum(const Leaf& leaf, const Join& join, int first) {
        const auto left = Tree<kLeaves / 2>::sum(leaf, join, first);
        return join(left, Tree<kLeaves / 2>::sum(leaf, join, first + kLeaves / 2));
    }
};

// Four at a time, so that they are loaded side by side.
template <>
struct Tree<4> {
    template <class Leaf, class Join>
    RULE auto sum(const Leaf& leaf, const Join& join, int first) {
        const auto one = leaf(first);
        const auto two = leaf(first + 1);
        const auto three = leaf(first + 2);
        const auto four = leaf(first + 3);
        return join(join(one, two), join(three, four));
    }
};

template <>
struct Tree<1> {
    template <class Leaf, class Join>
    RULE auto sum(const Leaf& leaf, const Join& /*join*/, int first) {
        return leaf(first);
    }
};

// The sum of number(0) .. number(count - 1), doubles: in eight sums side by side, then theirs.
constexpr unsigned kNormChunk = 512;  // numbers of a gradient that are summed as one, then as many such sums, and so on

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

// How an optimizer steps a weight. A rule's fields are the constants of one step; it has kStates states, of which the
// first kWritten change. `root` is the square root, rounded correctly.

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
// turns. `m` is the mean whose turn it is, `o` the other one.
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
        const Number both = step.mean_share * mean - step.other_share * state[2];
        weight = weight - step.step_size * both / (root(square) * step.root_scale + step.epsilon);
    }
};

// The same where lookahead follows (Zhang et al., arXiv 1907.08610): the slow weights s go a part of the way.
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
    RULE void apply(const RangerLiteLookahead& by, Number gradient, Number& weight, Number (&state)[kStates],
                    const Root& root) {
        Number of_step[] = {state[0], state[1], state[3]};
        RangerLite<Number>::apply(by.step, gradient, weight, of_step, root);
        state[0] = of_step[0];
        state[1] = of_step[1];
        weight = by.fast_share * weight + by.slow_share * state[2];
        state[2] = weight;
    }
};

}  // namespace rules
