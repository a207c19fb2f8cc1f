#pragma once

#include "numbers.cuh"

// Fake quantization (pool/tasks/chess/training): rounds weights to the multiples of 1 / scale that exported integers
// stand for, and activations down as integers are. The operations of fake_quantization.py in their order, so that the
// bits are torch's.

// Kinds of rounding; 0: none.
constexpr uint32 kToEven = 1;    // to the nearest, halves to even
constexpr uint32 kFromZero = 2;  // to the nearest, halves away from zero
constexpr uint32 kTowardsZero = 3;

static __device__ __forceinline__ float round_to_grid(float number, float scale, uint32 rounding) {
    if (rounding == 0) return number;
    const float x = number * scale;
    const float truncated = truncf(x);
    float rounded = rounding == kToEven ? rintf(x) : truncated;
    if (rounding == kFromZero) {
        const float fraction = x - truncated;
        if (fraction >= 0.5F) rounded = truncated + 1.0F;
        if (fraction <= -0.5F) rounded = truncated - 1.0F;
    }
    return rounded / scale;
}

constexpr float kTolerance = 3e-5F;  // _JUST_BELOW there

// Rounds down to a multiple of 1 / one.
static __device__ __forceinline__ float floor_to_grid(float number, float one) {
    return floorf(number * one + kTolerance) / one;
}
