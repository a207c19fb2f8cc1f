#include "formats/binpack/decode.h"

namespace sparsepool::binpack {

std::size_t read_records_baseline(ChunkState& state, chess::Record* records, std::size_t capacity) {
    return read_records(state, records, capacity);
}

}  // namespace sparsepool::binpack
