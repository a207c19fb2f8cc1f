#pragma once

#include "chess/native/files/walk.h"

namespace sparsepool::text {

struct Kernels {
    chess::WalkKernels walk;

    static const Kernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool::text
