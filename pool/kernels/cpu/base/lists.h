#pragma once

#include <vector>

#include "base/matrix.h"
#include "base/numbers.h"

// Checks of the arguments that several functions have in common. std::invalid_argument names what is wrong.
namespace sparsepool {

void check_threads(std::size_t threads);  // 1 to kMaxThreads

// offsets[first .. last] must rise and stay within `total`.
void check_offsets(const char* name, Offsets offsets, std::size_t first, std::size_t last, std::size_t total);

// All numbers must be below `limit`; `what` says of what there are that many.
void check_below(const char* name, const Numbers& numbers, std::size_t limit, const char* what);

// offsets of bags: from 0 to the number of features.
void check_bags(Offsets offsets, const Numbers& features);

// Checks of lists of numbers.
struct ListKernels {
    std::uint32_t (*maximum)(const Numbers& numbers);  // 0 if empty
    bool (*ascending)(const Numbers& numbers, bool strictly);

    static const ListKernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool
