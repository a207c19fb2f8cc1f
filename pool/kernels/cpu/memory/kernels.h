#pragma once

#include <cstddef>

#include "base/numbers.h"

// The hot code of averages of weights. Nothing here checks bounds.
namespace sparsepool {

struct AverageKernels {
    // average[i] += rate * (weights[i] - average[i]), for numbers first .. last.
    void (*add)(float* average, const float* weights, float rate, std::size_t first, std::size_t last);

    static const AverageKernels baseline, avx2, avx512;  // common/simd.h
};

// The hot code of rounding. Nothing here checks bounds.

struct RoundingKernels {
    // `size` numbers, to nearest even; whether all are finite then.
    bool (*round)(BFloat16* to, const float* from, std::size_t size);

    static const RoundingKernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool
