#pragma once

#include "arrays/numbers.h"

namespace sparsepool {

// Checks of lists of numbers.
struct ListKernels {
    std::uint32_t (*maximum)(const Numbers& numbers);  // 0 if empty
    bool (*ascending)(const Numbers& numbers, bool strictly);

    static const ListKernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool
