#pragma once

#include <cstddef>

#include "formats/binpack/chain.h"

// The decoder as compiled for each instruction set. Each decodes up to `capacity` entries of the walk; fewer only
// at the end of the payload or at a fault.
namespace sparsepool::binpack {

std::size_t read_records_baseline(ChunkState& state, chess::Record* records, std::size_t capacity);
std::size_t read_records_avx2(ChunkState& state, chess::Record* records, std::size_t capacity);  // simd.h

}  // namespace sparsepool::binpack
