#pragma once

#include <immintrin.h>

#include "chess/native/features/feature_set.h"
#include "chess/native/record.h"

// Bags, a whole position at a time.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

// 0, 1, ... 63.
[[nodiscard]] inline __m512i all_squares() {
    return _mm512_set_epi8(63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41,
                           40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18,
                           17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
}

// Squares and codes of a record's pieces as 32 lanes of 16 bits.
struct PieceLanes {
    __m512i squares;
    __m512i codes;

    explicit PieceLanes(const Record& record) {
        const __m512i occupied = _mm512_maskz_compress_epi8(record.occupied, all_squares());
        squares = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(occupied));
        codes = _mm512_maskz_set1_epi16(record.planes[0], 1);
        codes = _mm512_mask_add_epi16(codes, record.planes[1], codes, _mm512_set1_epi16(2));
        codes = _mm512_mask_add_epi16(codes, record.planes[2], codes, _mm512_set1_epi16(4));
        codes = _mm512_mask_add_epi16(codes, record.planes[3], codes, _mm512_set1_epi16(8));
    }

    // All 32 numbers of one part; those behind the last piece mean nothing.
    [[nodiscard]] __m512i numbers(const Part& part, std::uint8_t view) const {
        const __m256i table = _mm512_cvtepi32_epi16(_mm512_loadu_si512(part.numbers[view]));
        return _mm512_xor_si512(_mm512_permutexvar_epi16(codes, _mm512_castsi256_si512(table)), squares);
    }
};

// Writes all 32 lanes of each part, past the bag's end: the next bag overwrites them. A bag followed by one that was
// written already is for `write_exactly`.
inline void write_bag_and_more(const FeatureSet& set, const PieceLanes& lanes, std::uint8_t view, std::uint32_t count,
                               std::uint16_t* out) {
    const Part* parts = set.parts.data();
    for (std::size_t i = 0; i < set.parts.size(); ++i, out += count) {
        _mm512_storeu_si512(out, lanes.numbers(parts[i], view));
    }
}

// The same for 32-bit numbers: at least 32 lanes.
inline void write_bag_and_more(const FeatureSet& set, const PieceLanes& lanes, std::uint8_t view, std::uint32_t count,
                               std::uint32_t* out) {
    const __m512i codes[2] = {_mm512_cvtepu16_epi32(_mm512_castsi512_si256(lanes.codes)),
                              _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(lanes.codes, 1))};
    const __m512i squares[2] = {_mm512_cvtepu16_epi32(_mm512_castsi512_si256(lanes.squares)),
                                _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(lanes.squares, 1))};
    const Part* parts = set.parts.data();
    for (std::size_t i = 0; i < set.parts.size(); ++i, out += count) {
        const __m512i table = _mm512_loadu_si512(parts[i].numbers[view]);
        for (unsigned part = 0; part < 2; ++part) {
            const __m512i numbers = _mm512_xor_si512(_mm512_permutexvar_epi32(codes[part], table), squares[part]);
            _mm512_storeu_si512(out + 16 * part, numbers);
        }
    }
}

inline void write_exactly(const FeatureSet& set, const PieceLanes& lanes, std::uint8_t view, std::uint32_t count,
                          std::uint16_t* out) {
    const auto present = static_cast<__mmask32>((std::uint64_t{1} << count) - 1);
    const Part* parts = set.parts.data();
    for (std::size_t i = 0; i < set.parts.size(); ++i, out += count) {
        _mm512_mask_storeu_epi16(out, present, lanes.numbers(parts[i], view));
    }
}

// What write_rows does, for 16-bit numbers.
inline void write_rows(const FeatureSet& set, const Record* samples, std::uint32_t batch_size,
                       const std::uint8_t* views, const std::uint32_t* offsets, std::uint16_t* numbers) {
    // Behind the last own bags is the opponent's first: so many bags, of two pieces at least, may reach there.
    constexpr std::uint32_t kLast = 16;
    const auto per_piece = static_cast<std::uint32_t>(set.parts.size());
    for (std::uint32_t i = 0; i < batch_size; ++i) {
        const PieceLanes lanes(samples[i]);
        const std::uint32_t count = (offsets[i + 1] - offsets[i]) / per_piece;
        std::uint16_t* own = numbers + offsets[i];
        std::uint16_t* opponent = numbers + offsets[batch_size + i];
        if (batch_size - i > kLast) [[likely]] {
            write_bag_and_more(set, lanes, views[i], count, own);
            write_bag_and_more(set, lanes, views[batch_size + i], count, opponent);
        } else {
            write_exactly(set, lanes, views[i], count, own);
            write_exactly(set, lanes, views[batch_size + i], count, opponent);
        }
    }
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
