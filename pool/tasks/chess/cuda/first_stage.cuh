#pragma once

#include "rounding.cuh"

// The first layer with what follows it: sums of rows, clipped to 0 .. highest, and of both perspectives side by side.
//
// Bags 0 .. samples are the own perspectives, the others the opponents'. ACTIVATION: what becomes of the clipped sums
//   0  products of the first half with the second, [samples, columns]: the own perspective's half, then the other's
//   1  they themselves, [samples, 2 * columns]
//   2  their squares, [samples, 2 * columns]
// CUT 1: products are multiplied by `factor` and cut to the multiples of 1 / one below; the gradient passes the cut.
// `kept` [2 * samples, columns] is what backward needs: the clipped sums. A NaN stays one.

constexpr bool kPairs = ACTIVATION == 0;
static_assert(kPairs || !CUT, "only products are cut");

// Rounded as in memory, so that backward sees what forward has used.
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

// Of a bag's part of a sample's row: numbers for each bag, and where they begin.
static __device__ __forceinline__ uint64 place_in_row(uint32 bag, uint32 samples, uint32 width) {
    const uint32 side = bag < samples ? 0 : 1;
    return (static_cast<uint64>(bag - side * samples) * 2 + side) * width;
}
