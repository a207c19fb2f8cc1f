#pragma once

#include "rounding.cuh"

// The first layer and its activation: sums of rows, clipped to 0 .. highest; then both perspectives side by side.
//
// Bags 0 .. samples - 1 are the own perspectives, the others the opponents'. ACTIVATION: what is computed of clipped
// sums
//   0  products of the first half with the second, [samples, columns]: own perspective first
//   1  the clipped sums, [samples, 2 * columns]
//   2  their squares, [samples, 2 * columns]
// CUT 1: products are multiplied by `factor` and rounded down to multiples of 1 / one; the gradient passes the
// rounding. `kept` [2 * samples, columns] has the clipped sums for backward. A NaN stays a NaN.

constexpr bool kPairs = ACTIVATION == 0;
static_assert(kPairs || !CUT, "only products are cut");

// Rounds as memory does, so that backward reads what forward has used.
static __device__ __forceinline__ Floats rounded(const Floats& numbers) {
#if BFLOAT16
    Floats out;
    UNROLL
    for (int i = 0; i < WIDTH; ++i) out.at[i] = from_bfloat16(to_bfloat16(numbers.at[i]));
    return out;
#else
    return numbers;
#endif
}

static __device__ __forceinline__ Floats product(const Floats& left, const Floats& right) {
    Floats out;
    UNROLL
    for (int i = 0; i < WIDTH; ++i) out.at[i] = left.at[i] * right.at[i];
    return out;
}

// Where a bag's `width` numbers begin in the rows of the samples.
static __device__ __forceinline__ uint64 place_in_row(uint32 bag, uint32 samples, uint32 width) {
    const uint32 side = bag < samples ? 0 : 1;
    return (static_cast<uint64>(bag - side * samples) * 2 + side) * width;
}
