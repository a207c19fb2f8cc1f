#include "memory/kernels.h"

#include "base/vec.h"
#include "common/isa.h"

namespace sparsepool {
namespace {

void add(float* average, const float* weights, float rate, std::size_t first, std::size_t last) {
    const Vec share = Vec::all(rate);
    std::size_t i = first;
    for (; i + Vec::kWidth <= last; i += Vec::kWidth) {
        const Vec old_average = Vec::load(average + i);
        (old_average + share * (Vec::load(weights + i) - old_average)).store(average + i);
    }
    if (i < last) {
        const std::size_t n = last - i;
        const Vec old_average = Vec::load_part(average + i, n);
        (old_average + share * (Vec::load_part(weights + i, n) - old_average)).store_part(average + i, n);
    }
}

}  // namespace

const AverageKernels AverageKernels::SPARSEPOOL_ISA{sparsepool::add};

namespace {

// Rounds to nearest even: adding 0x7FFF, and 1 if the lowest bit that stays is set, carries into the upper half where
// the lower half rounds up. A number beyond the largest bfloat16 becomes an infinity; a NaN gets its quiet bit and
// stays one. Without branches, so that the compiler vectorizes the loop.
bool round(BFloat16* to, const float* from, std::size_t size) {
    constexpr std::uint32_t kInfinity = 0x7F800000;
    constexpr std::uint32_t kMagnitude = 0x7FFFFFFF;  // all bits but the sign
    constexpr std::uint32_t kQuiet = 0x400000;
    std::uint32_t is_infinite = 0;
    for (std::size_t i = 0; i < size; ++i) {
        std::uint32_t bits;
        __builtin_memcpy(&bits, from + i, sizeof(bits));
        const std::uint32_t nearest = bits + 0x7FFF + ((bits >> 16) & 1);
        const std::uint32_t rounded = (bits & kMagnitude) > kInfinity ? bits | kQuiet : nearest;
        is_infinite |= (rounded & kInfinity) == kInfinity ? 1U : 0U;
        to[i].bits = static_cast<std::uint16_t>(rounded >> 16);
    }
    return is_infinite == 0;
}

}  // namespace

const RoundingKernels RoundingKernels::SPARSEPOOL_ISA{sparsepool::round};

}  // namespace sparsepool
