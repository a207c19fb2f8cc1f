#pragma once

#include "chess/native/batch/slot_arrays.h"
#include "chess/native/board/position.h"
#include "chess/native/record.h"

namespace sparsepool::chess {

struct Kernels {
    // Writes all of a batch but its number (batch/build.h).
    void (*build_batch)(const BatchRecords& parts, const Scratch& scratch, const SlotArrays& slot);
    // With the flag kInCheck (make_record.h).
    void (*write_record)(const Entry& entry, Record& record);

    static const Kernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool::chess
