#include "memory/kernels.h"

#include "base/vec.h"
#include "common/isa.h"

namespace sparsepool {
namespace {

void add(float* average, const float* weights, float rate, std::size_t first, std::size_t last) {
    const Vec share = Vec::all(rate);
    std::size_t i = first;
    for (; i + Vec::kWidth <= last; i += Vec::kWidth) {
        const Vec before = Vec::load(average + i);
        (before + share * (Vec::load(weights + i) - before)).store(average + i);
    }
    if (i < last) {
        const std::size_t n = last - i;
        const Vec before = Vec::load_part(average + i, n);
        (before + share * (Vec::load_part(weights + i, n) - before)).store_part(average + i, n);
    }
}

}  // namespace

const AverageKernels AverageKernels::SPARSEPOOL_ISA{sparsepool::add};

namespace {

// Without branches: the compiler makes vectors of it. What rounds beyond the largest bfloat16 becomes an infinity; a
// NaN stays one, and quiet.
bool round(BFloat16* to, const float* from, std::size_t size) {
    constexpr std::uint32_t kInfinity = 0x7F800000;
    std::uint32_t infinite = 0;
    for (std::size_t i = 0; i < size; ++i) {
        std::uint32_t bits;
        __builtin_memcpy(&bits, from + i, sizeof(bits));
        const std::uint32_t nearest = bits + 0x7FFF + ((bits >> 16) & 1);
        const std::uint32_t rounded = (bits & 0x7FFFFFFF) > kInfinity ? bits | 0x400000 : nearest;
        infinite |= (rounded & kInfinity) == kInfinity ? 1U : 0U;
        to[i].bits = static_cast<std::uint16_t>(rounded >> 16);
    }
    return infinite == 0;
}

}  // namespace

const RoundingKernels RoundingKernels::SPARSEPOOL_ISA{sparsepool::round};

}  // namespace sparsepool
