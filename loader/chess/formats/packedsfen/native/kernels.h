#pragma once

#include "chess/native/files/walk.h"

namespace sparsepool::packedsfen {

struct Kernels {
    chess::WalkKernels walk;

    static const Kernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool::packedsfen
