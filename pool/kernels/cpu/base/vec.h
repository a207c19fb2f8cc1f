#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstddef>

#include "base/numbers.h"

// One vector register of floats at the level that this file is compiled for. Only for kernel files.
//
// Arithmetic and roots are the same IEEE operations at every width, so every level gives the same bits.
// bfloat16 is widened as it is loaded.
// `part` versions touch the first n floats alone (0 < n < kWidth); the rest of a loaded register is zero.
// between(low, high) is each number brought into low .. high, clipped(top) into 0 .. top; in them and in
// or_zero_if_negative() a NaN stays, as in down(), the whole number below. where_inside(x, top) is the derivative's
// part: this where 0 < x < top, else 0; where_within(x, top) is this where 0 <= x <= top.

// Without it gcc keeps the accumulators in memory.
#define UNROLL _Pragma("GCC unroll 16")

// Of a lambda or a member function. gcc drops calls of functions that do nothing but prefetch, unless they are inlined;
// and a call for each row of a cache line takes as long as the row.
#define INLINED __attribute__((always_inline))

namespace sparsepool {
namespace {

constexpr std::size_t kLine = 16;  // floats of a cache line

#if defined(__AVX512F__)

constexpr std::size_t kRegisters = 16;  // accumulators of one pass: 16 of 32 registers, 256 columns

struct Vec {
    static constexpr std::size_t kWidth = 16;
    __m512 v;

    static Vec zero() { return {_mm512_setzero_ps()}; }
    static Vec all(float value) { return {_mm512_set1_ps(value)}; }
    static Vec load(const float* from) { return {_mm512_loadu_ps(from)}; }
    static Vec load_part(const float* from, std::size_t n) { return {_mm512_maskz_loadu_ps(mask(n), from)}; }
    static Vec load(const BFloat16* from) {
        return widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    }
    static Vec load_part(const BFloat16* from, std::size_t n) {
        return widened(_mm256_maskz_loadu_epi16(mask(n), from));
    }
    void store(float* to) const { _mm512_storeu_ps(to, v); }
    void store_part(float* to, std::size_t n) const { _mm512_mask_storeu_ps(to, mask(n), v); }
    void stream(float* to) const { _mm512_stream_ps(to, v); }
    Vec operator+(Vec other) const { return {_mm512_add_ps(v, other.v)}; }
    Vec operator-(Vec other) const { return {_mm512_sub_ps(v, other.v)}; }
    Vec operator*(Vec other) const { return {_mm512_mul_ps(v, other.v)}; }
    Vec operator/(Vec other) const { return {_mm512_div_ps(v, other.v)}; }
    Vec root() const { return {_mm512_maskz_sqrt_ps(0xFFFF, v)}; }
    Vec or_zero_if_negative() const { return {_mm512_maskz_max_ps(0xFFFF, _mm512_setzero_ps(), v)}; }
    // masked with all ones: gcc 12 warns of its own header's undefined register otherwise
    Vec between(Vec low, Vec high) const {
        return {_mm512_maskz_min_ps(0xFFFF, high.v, _mm512_maskz_max_ps(0xFFFF, low.v, v))};
    }
    Vec clipped(Vec top) const { return between(zero(), top); }
    Vec where_inside(Vec x, Vec top) const {
        const __mmask16 above = _mm512_cmp_ps_mask(x.v, _mm512_setzero_ps(), _CMP_GT_OQ);
        return {_mm512_maskz_mov_ps(_mm512_mask_cmp_ps_mask(above, x.v, top.v, _CMP_LT_OQ), v)};
    }
    Vec where_within(Vec x, Vec top) const {
        const __mmask16 from = _mm512_cmp_ps_mask(x.v, _mm512_setzero_ps(), _CMP_GE_OQ);
        return {_mm512_maskz_mov_ps(_mm512_mask_cmp_ps_mask(from, x.v, top.v, _CMP_LE_OQ), v)};
    }
    Vec down() const { return {_mm512_maskz_roundscale_ps(0xFFFF, v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }

    static Vec widened(__m256i halves) {
        const __m512i words = _mm512_maskz_cvtepu16_epi32(0xFFFF, halves);
        return {_mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xFFFF, words, 16))};
    }

    static __mmask16 mask(std::size_t n) { return static_cast<__mmask16>((1U << n) - 1U); }
};

#elif defined(__AVX2__)

constexpr std::size_t kRegisters = 8;

struct Vec {
    static constexpr std::size_t kWidth = 8;
    __m256 v;

    static Vec zero() { return {_mm256_setzero_ps()}; }
    static Vec all(float value) { return {_mm256_set1_ps(value)}; }
    static Vec load(const float* from) { return {_mm256_loadu_ps(from)}; }
    static Vec load_part(const float* from, std::size_t n) { return {_mm256_maskload_ps(from, mask(n))}; }
    static Vec load(const BFloat16* from) {
        const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
        return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16))};
    }
    static Vec load_part(const BFloat16* from, std::size_t n) {
        BFloat16 padded[kWidth] = {};
        for (std::size_t i = 0; i < n; ++i) padded[i] = from[i];
        return load(padded);
    }
    void store(float* to) const { _mm256_storeu_ps(to, v); }
    void store_part(float* to, std::size_t n) const { _mm256_maskstore_ps(to, mask(n), v); }
    void stream(float* to) const { _mm256_stream_ps(to, v); }
    Vec operator+(Vec other) const { return {_mm256_add_ps(v, other.v)}; }
    Vec operator-(Vec other) const { return {_mm256_sub_ps(v, other.v)}; }
    Vec operator*(Vec other) const { return {_mm256_mul_ps(v, other.v)}; }
    Vec operator/(Vec other) const { return {_mm256_div_ps(v, other.v)}; }
    Vec root() const { return {_mm256_sqrt_ps(v)}; }
    Vec or_zero_if_negative() const { return {_mm256_max_ps(_mm256_setzero_ps(), v)}; }
    Vec between(Vec low, Vec high) const { return {_mm256_min_ps(high.v, _mm256_max_ps(low.v, v))}; }
    Vec clipped(Vec top) const { return between(zero(), top); }
    Vec where_inside(Vec x, Vec top) const {
        const __m256 above = _mm256_cmp_ps(x.v, _mm256_setzero_ps(), _CMP_GT_OQ);
        const __m256 below = _mm256_cmp_ps(x.v, top.v, _CMP_LT_OQ);
        return {_mm256_and_ps(v, _mm256_and_ps(above, below))};
    }
    Vec where_within(Vec x, Vec top) const {
        const __m256 from = _mm256_cmp_ps(x.v, _mm256_setzero_ps(), _CMP_GE_OQ);
        const __m256 to = _mm256_cmp_ps(x.v, top.v, _CMP_LE_OQ);
        return {_mm256_and_ps(v, _mm256_and_ps(from, to))};
    }
    Vec down() const { return {_mm256_floor_ps(v)}; }

    static __m256i mask(std::size_t n) {
        return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    }
};

#else

constexpr std::size_t kRegisters = 8;

struct Vec {
    static constexpr std::size_t kWidth = 4;
    using Four = float __attribute__((vector_size(16), aligned(4), may_alias));
    Four v;

    static Vec zero() { return all(0.0F); }
    static Vec all(float value) { return {Four{value, value, value, value}}; }
    static Vec load(const float* from) { return {*reinterpret_cast<const Four*>(from)}; }
    static Vec load_part(const float* from, std::size_t n) {
        return {Four{from[0], n > 1 ? from[1] : 0.0F, n > 2 ? from[2] : 0.0F, 0.0F}};
    }
    static Vec load(const BFloat16* from) {
        using Halves = std::uint16_t __attribute__((vector_size(8), aligned(2), may_alias));
        using Words = std::uint32_t __attribute__((vector_size(16)));
        const Words words = __builtin_convertvector(*reinterpret_cast<const Halves*>(from), Words) << 16;
        return {reinterpret_cast<Four>(words)};
    }
    static Vec load_part(const BFloat16* from, std::size_t n) {
        BFloat16 padded[kWidth] = {};
        for (std::size_t i = 0; i < n; ++i) padded[i] = from[i];
        return load(padded);
    }
    void store(float* to) const { *reinterpret_cast<Four*>(to) = v; }
    void store_part(float* to, std::size_t n) const {
        for (std::size_t i = 0; i < n; ++i) to[i] = v[i];
    }
#if defined(__x86_64__)
    void stream(float* to) const { _mm_stream_ps(to, __m128{v[0], v[1], v[2], v[3]}); }
#else
    void stream(float* to) const { store(to); }
#endif
    Vec operator+(Vec other) const { return {v + other.v}; }
    Vec operator-(Vec other) const { return {v - other.v}; }
    Vec operator*(Vec other) const { return {v * other.v}; }
    Vec operator/(Vec other) const { return {v / other.v}; }
    Vec root() const {
        return {Four{__builtin_sqrtf(v[0]), __builtin_sqrtf(v[1]), __builtin_sqrtf(v[2]), __builtin_sqrtf(v[3])}};
    }
    Vec or_zero_if_negative() const { return {pick(v < all(0.0F).v, all(0.0F).v, v)}; }
    Vec between(Vec low, Vec high) const {
        const Four raised = pick(v < low.v, low.v, v);
        return {pick(raised > high.v, high.v, raised)};
    }
    Vec clipped(Vec top) const { return between(zero(), top); }
    Vec where_inside(Vec x, Vec top) const { return {pick((x.v > all(0.0F).v) & (x.v < top.v), v, all(0.0F).v)}; }
    Vec where_within(Vec x, Vec top) const { return {pick((x.v >= all(0.0F).v) & (x.v <= top.v), v, all(0.0F).v)}; }
    Vec down() const {
        return {Four{__builtin_floorf(v[0]), __builtin_floorf(v[1]), __builtin_floorf(v[2]), __builtin_floorf(v[3])}};
    }

    using Bits = int __attribute__((vector_size(16)));
    static Four pick(Bits where, Four yes, Four no) {
        return reinterpret_cast<Four>((where & reinterpret_cast<Bits>(yes)) | (~where & reinterpret_cast<Bits>(no)));
    }
};

#endif

// One float, for rows that have no more: the same operations.
struct Single {
    static constexpr std::size_t kWidth = 1;
    float v;

    static Single zero() { return {0.0F}; }
    static Single all(float value) { return {value}; }
    static Single load(const float* from) { return {*from}; }
    void store(float* to) const { *to = v; }
    Single operator+(Single other) const { return {v + other.v}; }
    Single operator*(Single other) const { return {v * other.v}; }
    Vec widened() const { return Vec::all(v); }
};

#if defined(__AVX512F__)

// Half a register, which a partly filled one is slower than.
struct Half {
    static constexpr std::size_t kWidth = 8;
    __m256 v;

    static Half zero() { return {_mm256_setzero_ps()}; }
    static Half all(float value) { return {_mm256_set1_ps(value)}; }
    static Half load(const float* from) { return {_mm256_loadu_ps(from)}; }
    void store(float* to) const { _mm256_storeu_ps(to, v); }
    Half operator+(Half other) const { return {_mm256_add_ps(v, other.v)}; }
    Half operator*(Half other) const { return {_mm256_mul_ps(v, other.v)}; }
    Vec widened() const { return {_mm512_zextps256_ps512(v)}; }
};

#endif

// Orders streaming stores before whatever tells another thread or process that they are done.
inline void fence() {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

}  // namespace
}  // namespace sparsepool
