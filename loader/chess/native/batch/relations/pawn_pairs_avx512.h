#pragma once

#include <immintrin.h>

#include "chess/native/batch/relations/threats_avx512.h"

// The pawn pairs of a position for both bags, of up to 16 pawns.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

inline constexpr std::uint32_t kMaxPawnScore = 16;
inline constexpr std::uint32_t kMaxPairs = kMaxPawnScore * (kMaxPawnScore - 1) / 2;

// The pairs of pawns on the same file or on neighbouring files, as bytes: 16 * first pawn + second pawn, ascending. A
// pawn is its index among the pawns of the position.
struct PawnPairs {
    std::uint32_t count;
    std::uint32_t black;  // which of the pawns are black, a bit each
    __m128i squares;      // of the pawns
    alignas(64) std::uint8_t pairs[kMaxPairs + kSlack];

    // Finds the pairs: for four first pawns at a time, all 16 second pawns are tested at once.
    void find(Bitboard pawns, Bitboard black_pieces) {
        count = 0;
        black = static_cast<std::uint32_t>(_pext_u64(black_pieces, pawns));
        squares = _mm512_castsi512_si128(_mm512_maskz_compress_epi8(pawns, all_squares()));
        const std::uint32_t num_pawns = count_squares(pawns);
        const __m128i files = _mm_and_si128(squares, _mm_set1_epi8(7));
        const __m512i second = _mm512_and_si512(all_squares(), _mm512_set1_epi8(15));
        const __m512i second_files = _mm512_broadcast_i32x4(files);
        const __mmask64 has_second = ((std::uint64_t{1} << num_pawns) - 1) * 0x0001000100010001;
        for (std::uint32_t begin = 0; begin < num_pawns; begin += 4) {
            const __m512i pair = _mm512_add_epi8(all_squares(), _mm512_set1_epi8(static_cast<char>(16 * begin)));
            const __m512i first = _mm512_and_si512(_mm512_srli_epi16(pair, 4), _mm512_set1_epi8(15));
            const __m512i first_files = _mm512_permutexvar_epi8(first, _mm512_castsi128_si512(files));
            const __m512i distance = _mm512_abs_epi8(_mm512_sub_epi8(first_files, second_files));
            const __mmask64 are_near = _mm512_cmplt_epu8_mask(distance, _mm512_set1_epi8(2));
            const __mmask64 are_ordered = _mm512_cmplt_epu8_mask(first, second);
            const __mmask64 matches = are_near & has_second & are_ordered;
            _mm512_storeu_si512(pairs + count, _mm512_maskz_compress_epi8(matches, pair));
            count += count_squares(matches);
        }
    }

    // Returns the indices of 32 pairs from `begin` on, as one bag sees them (pawn_pair_index).
    [[nodiscard]] __m512i pair_indices(std::uint32_t begin, const RelationView& view) const {
        const auto opponents = static_cast<__mmask16>(view.colour != 0 ? ~black : black);
        const __m128i seen_squares = _mm_xor_si128(squares, _mm_set1_epi8(static_cast<char>(view.flip)));
        const __m128i own_ids = _mm_sub_epi8(seen_squares, _mm_set1_epi8(8));
        const __m256i ids = _mm256_castsi128_si256(_mm_mask_add_epi8(own_ids, opponents, own_ids, _mm_set1_epi8(48)));
        const __m256i pair = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pairs + begin));
        const __m256i low_bits = _mm256_set1_epi8(15);
        const __m256i one = _mm256_permutexvar_epi8(_mm256_and_si256(_mm256_srli_epi16(pair, 4), low_bits), ids);
        const __m256i other = _mm256_permutexvar_epi8(_mm256_and_si256(pair, low_bits), ids);
        // high * (high - 1) / 2 + low
        const __m512i high = _mm512_cvtepu8_epi16(_mm256_max_epu8(one, other));
        const __m512i low = _mm512_cvtepu8_epi16(_mm256_min_epu8(one, other));
        const __m512i product = _mm512_mullo_epi16(high, _mm512_sub_epi16(high, _mm512_set1_epi16(1)));
        return _mm512_add_epi16(_mm512_srli_epi16(product, 1), low);
    }
};

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
