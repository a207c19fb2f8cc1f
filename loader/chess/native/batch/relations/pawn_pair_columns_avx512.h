#pragma once

#include "batch/columns.h"
#include "chess/native/batch/bit_boards_avx512.h"
#include "chess/native/batch/relations/relations.h"
#include "chess/native/features/pawn_pairs.h"

// Columns of pawn pairs by bit matrices: the bags of a pair are those that have both of its pawns, 512 bags at a time.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

inline constexpr std::uint32_t kPawnIds = 96;  // of pawn_pair_index
inline constexpr std::uint32_t kWords = 8;     // of 64 bags, one register

// Transposes the pawns of 64 bags from `first_bag` on: words[stride * id] has a bit for each bag that has this pawn.
inline void transpose_pawns(const Scratch& scratch, std::uint32_t batch_size, std::uint32_t first_bag,
                            std::size_t stride, std::uint64_t* words) {
    alignas(64) std::uint64_t boards[2][kGroup] = {};  // own pawns, the opponent's; ranks as that side sees them
    std::uint64_t mirrored = 0;
    const std::uint32_t remaining = 2 * batch_size - first_bag;
    const std::uint32_t num_bags = remaining < kGroup ? remaining : kGroup;
    for (std::uint32_t i = 0; i < num_bags; ++i) {
        const std::uint32_t bag = first_bag + i;
        const Record& record = scratch.samples[bag < batch_size ? bag : bag - batch_size];
        const std::uint8_t view = scratch.views[bag];
        const std::uint32_t pawns = ~(record.planes[1] | record.planes[2] | record.planes[3]);
        const std::uint64_t white = _pdep_u64(pawns & ~record.planes[0], record.occupied);
        const std::uint64_t black = _pdep_u64(pawns & record.planes[0], record.occupied);
        const bool is_black = view >= 64;
        boards[0][i] = is_black ? __builtin_bswap64(black) : white;
        boards[1][i] = is_black ? __builtin_bswap64(white) : black;
        mirrored |= std::uint64_t{(view & 4) != 0} << i;  // the king is on files e to h
    }
    const __m512i reversed = _mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    const __m512i mirrors_files = _mm512_set1_epi64(static_cast<long long>(mirrored));
    for (std::size_t side = 0; side < 2; ++side) {
        __m512i ranks[8];
        transpose_bits(boards[side], ranks);
        for (std::size_t rank = 1; rank < 7; ++rank) {
            constexpr int kSelect = 0xCA;  // ternary logic: a ? b : c
            const __m512i reversed_files = _mm512_permutexvar_epi64(reversed, ranks[rank]);
            alignas(64) std::uint64_t files[8];
            _mm512_store_si512(files, _mm512_ternarylogic_epi64(mirrors_files, reversed_files, ranks[rank], kSelect));
            for (std::size_t file = 0; file < 8; ++file)
                words[stride * (48 * side + 8 * (rank - 1) + file)] = files[file];
        }
    }
}

// Collects the words of bags that have both pawns, as far as they are not zero, with the indices of the words. Returns
// how many there are.
inline std::uint32_t collect_pair_items(const std::uint64_t* one, const std::uint64_t* other, std::size_t num_words,
                                        const Scratch& scratch) {
    std::uint32_t count = 0;
    __m128i indices = _mm_set_epi16(7, 6, 5, 4, 3, 2, 1, 0);
    for (std::size_t word = 0; word < num_words; word += kWords) {
        const __m512i both = _mm512_and_si512(_mm512_load_si512(one + word), _mm512_load_si512(other + word));
        const __mmask8 not_zero = _mm512_test_epi64_mask(both, both);
        _mm512_storeu_si512(scratch.item_masks + count, _mm512_maskz_compress_epi64(not_zero, both));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(scratch.item_groups + count),
                         _mm_maskz_compress_epi16(not_zero, indices));
        indices = _mm_add_epi16(indices, _mm_set1_epi16(kWords));
        count += static_cast<std::uint32_t>(__builtin_popcount(not_zero));
    }
    return count;
}

// Appends the bags of each item to `lists` from `offset` on. `capacity` is the length of `lists`. Returns where they
// end.
inline std::uint32_t append_item_bags(const Scratch& scratch, std::uint32_t num_items, std::uint16_t* lists,
                                      std::uint32_t offset, std::uint32_t capacity) {
    const __m512i identity =  // 0, 1, ... 63: a transposition of a transposition
        _mm512_permutexvar_epi8(byte_transposition(false), byte_transposition(false));
    for (std::uint32_t i = 0; i < num_items; ++i) {
        const std::uint64_t mask = scratch.item_masks[i];
        const __m512i first_bag = _mm512_set1_epi16(static_cast<short>(kGroup * scratch.item_groups[i]));
        const __m512i members = _mm512_maskz_compress_epi8(mask, identity);
        const __m512i low = _mm512_add_epi16(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(members)), first_bag);
        const auto high = [&] {
            return _mm512_add_epi16(_mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(members, 1)), first_bag);
        };
        const auto count = static_cast<std::uint32_t>(__builtin_popcountll(mask));
        if (offset + kGroup <= capacity) [[likely]] {  // what is written too much, the next item overwrites
            _mm512_storeu_si512(lists + offset, low);
            if (count > 32) [[unlikely]]
                _mm512_storeu_si512(lists + offset + 32, high());
        } else {
            const std::uint64_t present = _bzhi_u64(~std::uint64_t{0}, count);
            _mm512_mask_storeu_epi16(lists + offset, static_cast<__mmask32>(present), low);
            _mm512_mask_storeu_epi16(lists + offset + 32, static_cast<__mmask32>(present >> 32), high());
        }
        offset += count;
    }
    return offset;
}

// Transposes the pawns of all bags into scratch.masks: a row of words for each pawn.
inline void transpose_all_pawns(const Scratch& scratch, std::uint32_t batch_size, std::size_t num_words,
                                std::size_t stride) {
    for (std::size_t word = 0; word < num_words; ++word) {
        const auto first_bag = static_cast<std::uint32_t>(kGroup * word);
        if (first_bag < 2 * batch_size) {
            transpose_pawns(scratch, batch_size, first_bag, stride, scratch.masks + word);
        } else {
            for (std::size_t id = 0; id < kPawnIds; ++id) scratch.masks[stride * id + word] = 0;
        }
    }
}

// Whether two pawns are on the same file or on neighbouring files.
[[nodiscard]] inline bool are_near(std::uint32_t one, std::uint32_t other) {
    const std::uint32_t file = one % 8;
    const std::uint32_t other_file = other % 8;
    return other_file + 1 >= file && file + 1 >= other_file;
}

// Appends the columns of the pawn pairs, whose indices begin at `first`. `touched` features are there already, and end
// at `offset` of `capacity` entries of columns.bags. Returns the number of touched features then.
template <class Index>
inline std::uint32_t append_pawn_pair_columns(std::uint32_t first, std::uint32_t batch_size, const Scratch& scratch,
                                              batch::Columns<Index, std::uint16_t> columns, std::uint32_t touched,
                                              std::uint32_t offset, std::uint32_t capacity) {
    const std::size_t num_blocks = (2 * std::size_t{batch_size} + kWords * kGroup - 1) / (kWords * kGroup);
    const std::size_t num_words = kWords * num_blocks;
    const std::size_t stride = kWords * (num_blocks | 1);  // an odd number of cache lines, as in bit_columns_avx512.h
    transpose_all_pawns(scratch, batch_size, num_words, stride);
    for (std::uint32_t high = 1; high < kPawnIds; ++high) {
        for (std::uint32_t low = 0; low < high; ++low) {
            if (!are_near(high, low)) continue;
            const std::uint32_t num_items =
                collect_pair_items(scratch.masks + stride * high, scratch.masks + stride * low, num_words, scratch);
            if (num_items == 0) continue;
            columns.touched[touched] = static_cast<Index>(first + pawn_pair_index(high, low));
            columns.touched_offsets[touched] = offset;
            ++touched;
            offset = append_item_bags(scratch, num_items, columns.bags, offset, capacity);
        }
    }
    columns.touched_offsets[touched] = offset;
    return touched;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
