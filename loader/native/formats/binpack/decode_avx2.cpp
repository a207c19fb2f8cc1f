// Compiled for SimdLevel::kAvx2 (CMakeLists.txt).
#define SPARSEPOOL_ISA avx2
#include "formats/binpack/decode.h"

namespace sparsepool::binpack {

std::size_t read_records_avx2(ChunkState& state, chess::Record* records, std::size_t capacity) {
    return read_records(state, records, capacity);
}

}  // namespace sparsepool::binpack
