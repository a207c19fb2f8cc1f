#pragma once

#include "batch/columns.h"
#include "chess/native/batch/bit_boards_avx512.h"
#include "chess/native/batch/relations/relations.h"
#include "chess/native/features/pawn_pairs.h"

// Columns of pawn pairs by bit matrix: the bags of a pair are those that have both of its pawns, found 512 at a time.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

inline constexpr std::uint32_t kPawnIds = 96;
inline constexpr std::uint32_t kWords = 8;  // of 64 bags, one register

// The pawns of 64 bags, each square a word of one bit a bag: words[stride * id].
inline void turn_pawns(const Scratch& scratch, std::uint32_t batch_size, std::uint32_t first_bag, std::size_t stride,
                       std::uint64_t* words) {
    alignas(64) std::uint64_t boards[2][kGroup] = {};  // own pawns, the opponent's; ranks as that side sees them
    std::uint64_t mirrored = 0;
    const std::uint32_t rest = 2 * batch_size - first_bag;
    for (std::uint32_t i = 0; i < (rest < kGroup ? rest : kGroup); ++i) {
        const std::uint32_t bag = first_bag + i;
        const Record& record = scratch.samples[bag < batch_size ? bag : bag - batch_size];
        const std::uint8_t view = scratch.views[bag];
        const std::uint32_t pawns = ~(record.planes[1] | record.planes[2] | record.planes[3]);
        const std::uint64_t white = _pdep_u64(pawns & ~record.planes[0], record.occupied);
        const std::uint64_t black = _pdep_u64(pawns & record.planes[0], record.occupied);
        const bool is_black = view >= 64;
        boards[0][i] = is_black ? __builtin_bswap64(black) : white;
        boards[1][i] = is_black ? __builtin_bswap64(white) : black;
        mirrored |= std::uint64_t{(view & 4) != 0} << i;
    }
    const __m512i backwards = _mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    const __m512i turn_files = _mm512_set1_epi64(static_cast<long long>(mirrored));
    for (std::size_t side = 0; side < 2; ++side) {
        __m512i ranks[8];
        transpose_bits(boards[side], ranks);
        for (std::size_t rank = 1; rank < 7; ++rank) {
            constexpr int kSelect = 0xCA;  // a ? b : c
            alignas(64) std::uint64_t files[8];
            _mm512_store_si512(files,
                               _mm512_ternarylogic_epi64(turn_files, _mm512_permutexvar_epi64(backwards, ranks[rank]),
                                                         ranks[rank], kSelect));
            for (std::size_t file = 0; file < 8; ++file)
                words[stride * (48 * side + 8 * (rank - 1) + file)] = files[file];
        }
    }
}

// The words of bags that have both pawns, of those that are not zero, with their numbers; gives back how many.
inline std::uint32_t bags_with_both(const std::uint64_t* one, const std::uint64_t* other, std::size_t num_words,
                                    const Scratch& scratch) {
    std::uint32_t count = 0;
    __m128i numbers = _mm_set_epi16(7, 6, 5, 4, 3, 2, 1, 0);
    for (std::size_t word = 0; word < num_words; word += kWords) {
        const __m512i both = _mm512_and_si512(_mm512_load_si512(one + word), _mm512_load_si512(other + word));
        const __mmask8 some = _mm512_test_epi64_mask(both, both);
        _mm512_storeu_si512(scratch.item_masks + count, _mm512_maskz_compress_epi64(some, both));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(scratch.item_groups + count),
                         _mm_maskz_compress_epi16(some, numbers));
        numbers = _mm_add_epi16(numbers, _mm_set1_epi16(kWords));
        count += static_cast<std::uint32_t>(__builtin_popcount(some));
    }
    return count;
}

// Appends the bags of each word to `lists` from `place` on, where there is room for `room` in all; gives back where
// they end.
inline std::uint32_t append_words(const Scratch& scratch, std::uint32_t num_items, std::uint16_t* lists,
                                  std::uint32_t place, std::uint32_t room) {
    const __m512i all = _mm512_permutexvar_epi8(byte_transposition(false), byte_transposition(false));  // 0, 1, ... 63
    for (std::uint32_t i = 0; i < num_items; ++i) {
        const std::uint64_t mask = scratch.item_masks[i];
        const __m512i first_bag = _mm512_set1_epi16(static_cast<short>(kGroup * scratch.item_groups[i]));
        const __m512i members = _mm512_maskz_compress_epi8(mask, all);
        const __m512i low = _mm512_add_epi16(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(members)), first_bag);
        const auto high = [&] {
            return _mm512_add_epi16(_mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(members, 1)), first_bag);
        };
        const auto count = static_cast<std::uint32_t>(__builtin_popcountll(mask));
        if (place + kGroup <= room) [[likely]] {  // what is written too much, the next word overwrites
            _mm512_storeu_si512(lists + place, low);
            if (count > 32) [[unlikely]]
                _mm512_storeu_si512(lists + place + 32, high());
        } else {
            const std::uint64_t present = _bzhi_u64(~std::uint64_t{0}, count);
            _mm512_mask_storeu_epi16(lists + place, static_cast<__mmask32>(present), low);
            _mm512_mask_storeu_epi16(lists + place + 32, static_cast<__mmask32>(present >> 32), high());
        }
        place += count;
    }
    return place;
}

// Appends the columns of the pawn pairs, which are numbered from `first` on, to `touched` features that end at `place`
// of `room`. Gives back how many features there are now.
template <class Number>
inline std::uint32_t pawn_pair_columns(std::uint32_t first, std::uint32_t batch_size, const Scratch& scratch,
                                       batch::Columns<Number, std::uint16_t> columns, std::uint32_t touched,
                                       std::uint32_t place, std::uint32_t room) {
    const std::size_t num_blocks = (2 * std::size_t{batch_size} + kWords * kGroup - 1) / (kWords * kGroup);
    const std::size_t num_words = kWords * num_blocks;
    const std::size_t stride = kWords * (num_blocks | 1);  // an odd number of cache lines, as in bit_columns_avx512.h
    for (std::size_t word = 0; word < num_words; ++word) {
        const auto bag = static_cast<std::uint32_t>(kGroup * word);
        if (bag < 2 * batch_size) {
            turn_pawns(scratch, batch_size, bag, stride, scratch.masks + word);
        } else {
            for (std::size_t id = 0; id < kPawnIds; ++id) scratch.masks[stride * id + word] = 0;
        }
    }
    for (std::uint32_t high = 1; high < kPawnIds; ++high) {
        for (std::uint32_t low = 0; low < high; ++low) {
            if (low % 8 + 1 < high % 8 || high % 8 + 1 < low % 8) continue;
            const std::uint32_t items =
                bags_with_both(scratch.masks + stride * high, scratch.masks + stride * low, num_words, scratch);
            if (items == 0) continue;
            columns.touched[touched] = static_cast<Number>(first + pawn_pair(high, low));
            columns.touched_offsets[touched++] = place;
            place = append_words(scratch, items, columns.bags, place, room);
        }
    }
    columns.touched_offsets[touched] = place;
    return touched;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
