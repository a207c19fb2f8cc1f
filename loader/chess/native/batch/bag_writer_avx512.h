#pragma once

#include <immintrin.h>

#include "chess/native/features/feature_set.h"
#include "chess/native/record.h"

// Bags, all pieces of a position at once.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

// Returns the bytes 0, 1, ... 63.
[[nodiscard]] inline __m512i all_squares() {
    return _mm512_set_epi8(63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41,
                           40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18,
                           17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
}

// Squares and codes of a record's pieces, as 32 lanes of 16 bits.
struct PieceLanes {
    __m512i squares;
    __m512i codes;

    // Squares: the set bits of `occupied`. Codes: bit i of lane j is bit j of planes[i].
    explicit PieceLanes(const Record& record) {
        const __m512i occupied = _mm512_maskz_compress_epi8(record.occupied, all_squares());
        squares = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(occupied));
        codes = _mm512_maskz_set1_epi16(record.planes[0], 1);
        codes = _mm512_mask_add_epi16(codes, record.planes[1], codes, _mm512_set1_epi16(2));
        codes = _mm512_mask_add_epi16(codes, record.planes[2], codes, _mm512_set1_epi16(4));
        codes = _mm512_mask_add_epi16(codes, record.planes[3], codes, _mm512_set1_epi16(8));
    }

    // Returns the feature of each piece; lanes behind the last piece are undefined.
    [[nodiscard]] __m512i features(const PieceInputs& inputs, std::uint8_t view) const {
        const __m256i table = _mm512_cvtepi32_epi16(_mm512_loadu_si512(inputs.base_index[view]));
        return _mm512_xor_si512(_mm512_permutexvar_epi16(codes, _mm512_castsi256_si512(table)), squares);
    }
};

// Writes the bag of a view, 16-bit indices. `count` is the number of pieces. Always stores 32 lanes for each of the
// piece inputs, which is past the bag's end: the next bag overwrites that. Where the next bag is written already, use
// write_bag_exactly.
inline void write_bag_and_more(const FeatureSet& set, const PieceLanes& lanes, std::uint8_t view, std::uint32_t count,
                               std::uint16_t* out) {
    const PieceInputs* inputs = set.piece_inputs.data();
    for (std::size_t i = 0; i < set.piece_inputs.size(); ++i, out += count) {
        _mm512_storeu_si512(out, lanes.features(inputs[i], view));
    }
}

// The same with 32-bit indices.
inline void write_bag_and_more(const FeatureSet& set, const PieceLanes& lanes, std::uint8_t view, std::uint32_t count,
                               std::uint32_t* out) {
    const __m512i codes[2] = {_mm512_cvtepu16_epi32(_mm512_castsi512_si256(lanes.codes)),
                              _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(lanes.codes, 1))};
    const __m512i squares[2] = {_mm512_cvtepu16_epi32(_mm512_castsi512_si256(lanes.squares)),
                                _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(lanes.squares, 1))};
    const PieceInputs* inputs = set.piece_inputs.data();
    for (std::size_t i = 0; i < set.piece_inputs.size(); ++i, out += count) {
        const __m512i table = _mm512_loadu_si512(inputs[i].base_index[view]);
        for (unsigned half = 0; half < 2; ++half) {
            const __m512i base = _mm512_permutexvar_epi32(codes[half], table);
            _mm512_storeu_si512(out + 16 * half, _mm512_xor_si512(base, squares[half]));
        }
    }
}

// Writes the bag of a view, 16-bit indices, and nothing behind it.
inline void write_bag_exactly(const FeatureSet& set, const PieceLanes& lanes, std::uint8_t view, std::uint32_t count,
                              std::uint16_t* out) {
    const auto present = static_cast<__mmask32>((std::uint64_t{1} << count) - 1);
    const PieceInputs* inputs = set.piece_inputs.data();
    for (std::size_t i = 0; i < set.piece_inputs.size(); ++i, out += count) {
        _mm512_mask_storeu_epi16(out, present, lanes.features(inputs[i], view));
    }
}

// The write_rows of rows.h for 16-bit indices.
inline void write_rows(const FeatureSet& set, const Record* samples, std::uint32_t batch_size,
                       const std::uint8_t* views, const std::uint32_t* offsets, std::uint16_t* features) {
    // The opponents' bags follow the last own bag. What is written behind one of the last own bags, of two pieces at
    // least each, could reach them.
    constexpr std::uint32_t kNumLast = 16;
    const auto features_per_piece = static_cast<std::uint32_t>(set.piece_inputs.size());
    for (std::uint32_t i = 0; i < batch_size; ++i) {
        const PieceLanes lanes(samples[i]);
        const std::uint32_t num_pieces = (offsets[i + 1] - offsets[i]) / features_per_piece;
        std::uint16_t* own = features + offsets[i];
        std::uint16_t* opponent = features + offsets[batch_size + i];
        if (batch_size - i > kNumLast) [[likely]] {
            write_bag_and_more(set, lanes, views[i], num_pieces, own);
            write_bag_and_more(set, lanes, views[batch_size + i], num_pieces, opponent);
        } else {
            write_bag_exactly(set, lanes, views[i], num_pieces, own);
            write_bag_exactly(set, lanes, views[batch_size + i], num_pieces, opponent);
        }
    }
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
