#pragma once

#include "kernels/rules.cuh"

// Rules of optimizers that run on CPUs only, in the form of rules.cuh. A Number is a vector.
namespace rules {

// bullet's AdamW (jw1912/bullet): Adam without the correction of the means, whose constants have a root_scale of 1, and
// weights that stay between two numbers. States: m, v.
template <class Number>
struct ClippedAdamW {
    static constexpr int kStates = Adam<Number>::kStates, kWritten = kStates;

    Adam<Number> adam;
    Number lowest, highest;

    template <class Root>
    RULE void apply(const ClippedAdamW& step, Number gradient, Number& weight, Number (&state)[kStates],
                    const Root& root) {
        Adam<Number>::apply(step.adam, gradient, weight, state, root);
        weight = weight.between(step.lowest, step.highest);
    }
};

// Adagrad (Duchi, Hazan and Singer, JMLR 12, 2011).
//
//   g = g + decay * w;   s = s + g^2;   w = w - rate * g / (sqrt(s) + epsilon)
//
// State: s. Of a table it is row-wise (Gupta, Bengio and Weston, JMLR 15, 2014; Naumov et al., arXiv 1906.00091): s is
// a number a row, to which the mean of the row's g^2 is added (kernels.cpp).
template <class Number>
struct Adagrad {
    static constexpr int kStates = 1, kWritten = kStates;

    Number rate, epsilon, decay;

    template <class Root>
    RULE void apply(const Adagrad& step, Number gradient, Number& weight, Number (&state)[kStates], const Root& root) {
        gradient = gradient + step.decay * weight;
        state[0] = state[0] + gradient * gradient;
        weight = weight - step.rate * gradient / (root(state[0]) + step.epsilon);
    }
};

// FTRL-proximal, per coordinate (McMahan et al., "Ad click prediction: a view from the trenches", KDD 2013, algorithm
// 1).
//
//   s = (sqrt(n + g^2) - sqrt(n)) / rate;   z = z + g - s w;   n = n + g^2
//   w = 0 where |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / rate + l2)
//
// States: z, n.
template <class Number>
struct Ftrl {
    static constexpr int kStates = 2, kWritten = kStates;

    Number per_rate;  // 1 / rate
    Number beta, l1, l2;

    template <class Root>
    RULE void apply(const Ftrl& step, Number gradient, Number& weight, Number (&state)[kStates], const Root& root) {
        Number& linear = state[0];
        const Number old_root = root(state[1]);
        state[1] = state[1] + gradient * gradient;
        const Number new_root = root(state[1]);
        linear = linear + (gradient - (new_root - old_root) * step.per_rate * weight);
        // z - sign(z) l1 where |z| > l1, else 0
        const Number above = (linear - step.l1).or_zero_if_negative();
        const Number shrunk = above - (Number::zero() - linear - step.l1).or_zero_if_negative();
        weight = Number::zero() - shrunk / ((step.beta + new_root) * step.per_rate + step.l2);
    }
};

}  // namespace rules
