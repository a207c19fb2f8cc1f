#pragma once

#include "base/vec.h"
#include "optim/kernels.h"

// The optimizers' formulas, number by number: what a gradient does to weight and state.
namespace sparsepool {
namespace {

struct AdamRule {
    static constexpr std::size_t kStates = 2;
    rules::AdamNumbers<Vec> numbers;

    explicit AdamRule(const AdamStep& step) : AdamRule(step.numbers) {}
    explicit AdamRule(const rules::AdamNumbers<float>& step)
        : numbers{Vec::all(step.mean_rate), Vec::all(step.square_keep), Vec::all(step.square_rate),
                  Vec::all(step.step_size), Vec::all(step.root_scale),  Vec::all(step.epsilon),
                  Vec::all(step.decay),     Vec::all(step.shrink)} {}

    void operator()(Vec gradient, Vec& weight, Vec (&state)[kStates]) const {
        rules::adam(numbers, gradient, weight, state[0], state[1], [](Vec square) { return square.root(); });
    }
};

struct ClippedAdamWRule {
    static constexpr std::size_t kStates = AdamRule::kStates;
    AdamRule adam;
    Vec lowest, highest;

    explicit ClippedAdamWRule(const ClippedAdamWStep& step)
        : adam(step.numbers), lowest(Vec::all(step.lowest)), highest(Vec::all(step.highest)) {}

    void operator()(Vec gradient, Vec& weight, Vec (&state)[kStates]) const {
        adam(gradient, weight, state);
        weight = weight.between(lowest, highest);
    }
};

struct AdagradRule {
    static constexpr std::size_t kStates = 1;
    Vec rate, epsilon, decay;

    explicit AdagradRule(const AdagradStep& step)
        : rate(Vec::all(step.rate)), epsilon(Vec::all(step.epsilon)), decay(Vec::all(step.decay)) {}

    void operator()(Vec gradient, Vec& weight, Vec (&state)[kStates]) const {
        gradient = gradient + decay * weight;
        state[0] = state[0] + gradient * gradient;
        weight = weight - rate * gradient / (state[0].root() + epsilon);
    }
};

struct FtrlRule {
    static constexpr std::size_t kStates = 2;
    Vec per_rate, beta, l1, l2;

    explicit FtrlRule(const FtrlStep& step)
        : per_rate(Vec::all(step.per_rate)), beta(Vec::all(step.beta)), l1(Vec::all(step.l1)), l2(Vec::all(step.l2)) {}

    void operator()(Vec gradient, Vec& weight, Vec (&state)[kStates]) const {
        Vec& linear = state[0];
        const Vec before = state[1].root();
        state[1] = state[1] + gradient * gradient;
        const Vec root = state[1].root();
        linear = linear + (gradient - (root - before) * per_rate * weight);
        const Vec beyond = (linear - l1).or_zero_if_negative() - (Vec::zero() - linear - l1).or_zero_if_negative();
        weight = Vec::zero() - beyond / ((beta + root) * per_rate + l2);
    }
};

}  // namespace
}  // namespace sparsepool
