#pragma once

#include <cstddef>

#include "arrays/bfloat16.h"

// The hot code of rounding. Nothing here checks bounds.
namespace sparsepool {

struct RoundingKernels {
    // `size` numbers, to nearest even; whether all are finite then.
    bool (*round)(BFloat16* to, const float* from, std::size_t size);

    static const RoundingKernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool
