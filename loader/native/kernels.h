#pragma once

#include <cstddef>

#include "batch/slot_arrays.h"
#include "formats/binpack/lane.h"
#include "random/philox.h"

// The hot code, compiled once per instruction set from the same headers (bitboard.h says how they are kept apart) and
// chosen at run time (simd.h): a wheel must run on another machine. All give the same bytes.
namespace sparsepool {

struct Kernels {
    const char* name;

    // Decodes `count` entries of each of up to kMaxLanes lanes (lanes.h).
    void (*read_lanes)(binpack::Lane* const* lanes, std::size_t num_lanes, std::size_t count, bool checks);

    // The random words of successive counters (random/philox_many.h).
    void (*philox_many)(random::Counter first, random::Key key, std::size_t count, std::uint32_t* words);

    // Writes all of a batch but its number (batch/build.h).
    void (*build_batch)(const batch::BatchParts& parts, const batch::Scratch& scratch, const batch::SlotArrays& slot);
};

extern const Kernels kBaselineKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
#endif

}  // namespace sparsepool
