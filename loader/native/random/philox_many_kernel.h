#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "common/isa.h"
#include "random/philox_many.h"

// The words of many counters at once: sixteen are mixed side by side.
namespace sparsepool::random {

inline namespace SPARSEPOOL_ISA {

#if defined(__AVX512F__)
// Low and high words of 32 x 32 bit products. The instruction multiplies even lanes only, so odd lanes are shifted down
// and multiplied apart; masks 0xAAAA select the odd lanes.
inline void multiply(__m512i a, std::uint32_t factor, __m512i& low, __m512i& high) {
    const __m512i b = _mm512_set1_epi64(factor);
    const __m512i even = _mm512_mul_epu32(a, b);
    const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), b);
    low = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
    high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
}

// Transposes four registers of sixteen lanes, register w with word w of each counter, and stores counter after counter.
inline void store_counters(const __m512i (&c)[4], std::uint32_t* words) {
    const __m512i low01 = _mm512_unpacklo_epi32(c[0], c[1]);
    const __m512i high01 = _mm512_unpackhi_epi32(c[0], c[1]);
    const __m512i low23 = _mm512_unpacklo_epi32(c[2], c[3]);
    const __m512i high23 = _mm512_unpackhi_epi32(c[2], c[3]);
    const __m512i counters[4] = {_mm512_unpacklo_epi64(low01, low23), _mm512_unpackhi_epi64(low01, low23),
                                 _mm512_unpacklo_epi64(high01, high23), _mm512_unpackhi_epi64(high01, high23)};
    for (int i = 0; i < 4; ++i) {  // the four quarters of a register: counters i, 4 + i, 8 + i, 12 + i
        _mm_storeu_si128(reinterpret_cast<__m128i*>(words + 4 * i), _mm512_castsi512_si128(counters[i]));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(words + 16 + 4 * i), _mm512_extracti32x4_epi32(counters[i], 1));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(words + 32 + 4 * i), _mm512_extracti32x4_epi32(counters[i], 2));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(words + 48 + 4 * i), _mm512_extracti32x4_epi32(counters[i], 3));
    }
}

inline void mix_sixteen(Counter first, Key key, std::uint32_t* words) {
    const auto broadcast = [](std::uint32_t word) { return _mm512_set1_epi32(static_cast<int>(word)); };
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i c[4] = {_mm512_add_epi32(broadcast(first[0]), lanes), broadcast(first[1]), broadcast(first[2]),
                    broadcast(first[3])};
    for (int round = 0; round < kRounds; ++round) {
        __m512i low0, high0, low2, high2;
        multiply(c[0], kMultiplier0, low0, high0);
        multiply(c[2], kMultiplier2, low2, high2);
        constexpr int kXor = 0x96;  // truth table of the exclusive or of three bits
        c[0] = _mm512_ternarylogic_epi32(high2, c[1], broadcast(key.low), kXor);
        c[1] = low2;
        c[2] = _mm512_ternarylogic_epi32(high0, c[3], broadcast(key.high), kXor);
        c[3] = low0;
        key.low += kKeyStepLow;
        key.high += kKeyStepHigh;
    }
    store_counters(c, words);
}
#else
inline void mix_sixteen(Counter first, Key key, std::uint32_t* words) {
    for (std::uint32_t i = 0; i < kCountersAtOnce; ++i) {
        const Words mixed = philox({first[0] + i, first[1], first[2], first[3]}, key);
        for (std::size_t word = 0; word < 4; ++word) words[4 * i + word] = mixed[word];
    }
}
#endif

// See philox_many.h.
inline void philox_many_kernel(Counter first, Key key, std::size_t count, std::uint32_t* words) {
    for (std::size_t begin = 0; begin < count; begin += kCountersAtOnce) {
        mix_sixteen(first, key, words + 4 * begin);
        first[0] += kCountersAtOnce;
    }
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::random
