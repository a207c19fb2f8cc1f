#pragma once

#include <cstddef>
#include <cstdint>

#include "random/philox.h"

namespace sparsepool::random {

inline constexpr std::size_t kCountersAtOnce = 16;

// Words behind `count` counters, rounded up to whole steps.
[[nodiscard]] inline constexpr std::size_t room_for_words(std::size_t count) {
    return 4 * (count + kCountersAtOnce - 1) / kCountersAtOnce * kCountersAtOnce + 4 * kCountersAtOnce;
}

// The random words of `count` successive counters. words[4 * i ...]: the words of `first` with i added to its lowest
// number. `words` has room_for_words(count).
void philox_many(Counter first, Key key, std::size_t count, std::uint32_t* words);

struct Kernels {
    void (*philox_many)(Counter first, Key key, std::size_t count, std::uint32_t* words);

    static const Kernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool::random
