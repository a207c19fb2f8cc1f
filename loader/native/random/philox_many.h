#pragma once

#include <cstddef>
#include <cstdint>

#include "random/philox.h"

namespace sparsepool::random {

inline constexpr std::size_t kCountersAtOnce = 16;

// Size of the memory for the words of `count` counters: four words each, padded for full steps of philox_many.
[[nodiscard]] inline constexpr std::size_t padded_words(std::size_t count) {
    return 4 * (count + kCountersAtOnce - 1) / kCountersAtOnce * kCountersAtOnce + 4 * kCountersAtOnce;
}

// Writes the random words of `count` successive counters: words[4 * i .. 4 * i + 3] are those of `first` with i added
// to word 0. `words` has padded_words(count).
void philox_many(Counter first, Key key, std::size_t count, std::uint32_t* words);

struct Kernels {
    void (*philox_many)(Counter first, Key key, std::size_t count, std::uint32_t* words);

    static const Kernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool::random
