#pragma once

#include <cstddef>

// The hot code of averages of weights. Nothing here checks bounds.
namespace sparsepool {

struct AverageKernels {
    // average[i] += rate * (weights[i] - average[i]), for numbers first .. last.
    void (*add)(float* average, const float* weights, float rate, std::size_t first, std::size_t last);

    static const AverageKernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool
