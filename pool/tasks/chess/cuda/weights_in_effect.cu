#include "rounding.cuh"

// Weights as they are in effect, of several tensors at once: with what is shared added, rounded. WIDTH is 1.
//
// Set by whoever compiles, besides numbers.cuh's: TENSORS, how many there are

// Tensor t: numbers first[t] to below first[t + 1] of all.
struct Weights {
    const float* at[TENSORS];
    const float* shared[TENSORS];  // null, or `period` numbers that are added to each as many
    float* out[TENSORS];
    uint32 period[TENSORS];
    uint32 rounding[TENSORS];
    float scale[TENSORS];
    float factor[TENSORS];  // what is rounded is multiplied by it
    uint32 first[TENSORS + 1];
};

// A thread has a number.
KERNEL(128, 8)
weights_in_effect(const Weights weights) {
    const uint64 i = item();
    if (i >= weights.first[TENSORS]) return;
    UNROLL
    for (uint32 t = 0; t < TENSORS; ++t) {
        if (i < weights.first[t] || i >= weights.first[t + 1]) continue;
        const uint32 at = static_cast<uint32>(i) - weights.first[t];
        float number = weights.at[t][at];
        if (weights.shared[t]) number = number + weights.shared[t][at % weights.period[t]];
        weights.out[t][at] = round_to_grid(number, weights.scale[t], weights.rounding[t]) * weights.factor[t];
    }
}
