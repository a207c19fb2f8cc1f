#pragma once

#include "numbers.cuh"

// Fake quantization: the multiple of 1 / scale that an exported integer says (pool/tasks/chess/training), and
// activations cut as integers are. The operations of fake_quantization.py in their order, so that the bits are torch's.

constexpr uint32 kToEven = 1;       // halves go to the even one
constexpr uint32 kFromZero = 2;     // halves go away from zero
constexpr uint32 kTowardsZero = 3;  // cut off

// `way` 0: as it is.
static __device__ __forceinline__ float on_grid(float number, float scale, uint32 way) {
    if (way == 0) return number;
    const float x = number * scale;
    const float whole = truncf(x);
    float rounded = way == kToEven ? rintf(x) : whole;
    if (way == kFromZero) {
        const float fraction = x - whole;
        rounded = fraction >= 0.5F ? whole + 1.0F : fraction <= -0.5F ? whole - 1.0F : whole;
    }
    return rounded / scale;
}

constexpr float kJustBelow = 3e-5F;  // _JUST_BELOW there

// The multiple of 1 / one below.
static __device__ __forceinline__ float floored(float number, float one) {
    return floorf(number * one + kJustBelow) / one;
}
