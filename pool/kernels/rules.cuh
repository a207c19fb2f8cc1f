#pragma once

// Rules that the CPU's kernels and the CUDA kernels share, to the bit: the order in which gradients are added up (I2),
// that of the squares of their norm, and how Adam steps. Read by g++, where a Number is a vector
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

// The constants of one step of Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1; weight decay added to the gradient,
// or decoupled as in Loshchilov and Hutter, arXiv 1711.05101).
template <class Number>
struct AdamNumbers {
    Number mean_rate;    // 1 - beta1
    Number square_keep;  // beta2
    Number square_rate;  // 1 - beta2
    Number step_size;    // learning rate / (1 - beta1^t)
    Number root_scale;   // 1 / sqrt(1 - beta2^t)
    Number epsilon;
    Number decay;   // added to the gradient, times the weight
    Number shrink;  // the weight is multiplied by it first
};

// Steps a weight and its moments; root(x) is the square root, rounded correctly.
template <class Number, class Root>
RULE void adam(const AdamNumbers<Number>& step, Number gradient, Number& weight, Number& mean, Number& square,
               const Root& root) {
    gradient = gradient + step.decay * weight;
    weight = weight * step.shrink;
    mean = mean + step.mean_rate * (gradient - mean);
    square = square * step.square_keep + step.square_rate * gradient * gradient;
    weight = weight - step.step_size * mean / (root(square) * step.root_scale + step.epsilon);
}

}  // namespace rules
