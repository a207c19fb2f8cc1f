#include "random/philox_many.h"

#include "common/simd.h"

namespace sparsepool::random {

void philox_many(Counter first, Key key, std::size_t count, std::uint32_t* words) {
    simd::kernels<Kernels>().philox_many(first, key, count, words);
}

}  // namespace sparsepool::random
