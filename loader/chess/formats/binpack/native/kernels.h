#pragma once

#include <cstddef>
#include <cstdint>

#include "chess/formats/binpack/native/entries/lane.h"

namespace sparsepool::binpack {

struct Kernels {
    // Steps to the next entry; false at the end of the payload or at a fault. After either it stays false.
    bool (*next)(ChunkState& state);

    // Decodes `count` entries of each of up to kMaxLanes lanes (lanes.h).
    void (*read_lanes)(Lane* const* lanes, std::size_t num_lanes, std::size_t count, bool checks);

    // Walks to the end of the payload, or to a fault.
    std::uint64_t (*count_entries)(ChunkState& state);

    static const Kernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool::binpack
