#pragma once

#include "batch/columns.h"
#include "chess/native/batch/bit_boards_avx512.h"

// Columns of a batch by bit matrices, without a counter or a random access per feature: twice as fast as a counting
// sort. Bags of one king bucket share their inputs, so they are grouped by 64. The transposed boards of a group are,
// for each input, the set of its bags. Going through the inputs in order, and for each through the groups, gives the
// lists in order, one behind the other.
//
// An item is a word of such a set that is not zero: up to 64 bags of one group that have one input.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

inline constexpr std::uint32_t kBlock = 8;  // groups whose words for one input are a cache line

// Returns the distance between the words of two blocks of groups. It is an odd number of cache lines: with an even
// number, the lines of one input would share few sets of the cache.
[[nodiscard]] inline std::size_t block_words(const PieceInputs& inputs) {
    return std::size_t{kBlock} * (inputs.plane_inputs() | 1);
}

// Orders bags by king bucket, otherwise ascending; each bucket begins at a multiple of 64 of scratch.grouped. `sizes`
// become the numbers of bags of the buckets.
inline void group_bags(const PieceInputs& inputs, std::uint32_t num_bags, Scratch scratch, std::uint32_t* sizes) {
    std::uint32_t next[256];
    std::memset(sizes, 0, inputs.buckets * sizeof *sizes);
    for (std::uint32_t bag = 0; bag < num_bags; ++bag) ++sizes[inputs.bucket[scratch.views[bag]]];
    std::uint32_t begin = 0;
    for (std::uint32_t bucket = 0; bucket < inputs.buckets; ++bucket) {
        next[bucket] = begin;
        begin += (sizes[bucket] + kGroup - 1) / kGroup * kGroup;
    }
    for (std::uint32_t bag = 0; bag < num_bags; ++bag) {
        const std::uint32_t bucket = inputs.bucket[scratch.views[bag]];
        scratch.grouped[next[bucket]++] = static_cast<std::uint16_t>(bag);
    }
}

// Writes the words of up to eight groups, whose bags begin at `bags`: masks[8 * input + group].
inline void write_block(const PieceInputs& inputs, Scratch scratch, std::uint32_t batch_size, const std::uint16_t* bags,
                        std::uint32_t count, std::uint64_t* masks) {
    BagBoards boards;
    GroupBoards groups[kBlock];
    for (std::uint32_t group = 0; group < kBlock; ++group) {
        const std::uint32_t begin = group * kGroup;
        const std::uint32_t remaining = begin < count ? count - begin : 0;
        const std::uint32_t size = remaining < kGroup ? remaining : kGroup;
        load_bags(inputs, scratch, batch_size, bags + begin, size, boards);
        orient_boards(boards, groups[group]);
    }
    const bool kings_together = inputs.planes == 11;
    __m512i pieces[kBlock][12];
    for (int rank = 0; rank < 8; ++rank) {
        for (std::uint32_t group = 0; group < kBlock; ++group) {
            split_pieces(groups[group], rank, kings_together, pieces[group]);
        }
        for (std::uint32_t plane = 0; plane < inputs.planes; ++plane) {
            __m512i words[8];  // of each group, by file; transposed: of each file, by group
            for (std::uint32_t group = 0; group < kBlock; ++group) words[group] = pieces[group][inputs.pieces[plane]];
            transpose_words(words);
            std::uint64_t* out = masks + kBlock * (64 * plane + 8 * static_cast<std::uint32_t>(rank));
            for (int file = 0; file < 8; ++file) _mm512_store_si512(out + 8 * file, words[file]);
        }
    }
}

// Collects the items of 64 inputs, input by input: their words and groups. item_ends[i] becomes the end of those of
// input i. Returns how many there are.
inline std::uint32_t collect_items(Scratch scratch, const std::uint64_t* masks, std::size_t stride,
                                   std::uint32_t num_blocks) {
    std::uint32_t count = 0;
    for (std::uint32_t input = 0; input < 64; ++input) {
        __m128i groups = _mm_set_epi16(7, 6, 5, 4, 3, 2, 1, 0);
        for (std::uint32_t block = 0; block < num_blocks; ++block) {
            const __m512i words = _mm512_load_si512(masks + block * stride + kBlock * input);
            const __mmask8 not_zero = _mm512_test_epi64_mask(words, words);
            _mm512_storeu_si512(scratch.item_masks + count, _mm512_maskz_compress_epi64(not_zero, words));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(scratch.item_groups + count),
                             _mm_maskz_compress_epi16(not_zero, groups));
            groups = _mm_add_epi16(groups, _mm_set1_epi16(kBlock));
            count += static_cast<std::uint32_t>(__builtin_popcount(not_zero));
        }
        scratch.item_ends[input] = count;
    }
    return count;
}

// Appends the bags of each item to `lists` from `offset` on. `capacity` is the length of `lists`. Item i begins at
// item_offsets[i]. Returns the end of the last item.
inline std::uint32_t append_bags(Scratch scratch, std::uint32_t num_items, const std::uint16_t* grouped,
                                 std::uint16_t* lists, std::uint32_t offset, std::uint32_t capacity,
                                 std::uint32_t* item_offsets) {
    const __m512i identity =  // 0, 1, ... 63: a transposition of a transposition
        _mm512_permutexvar_epi8(byte_transposition(false), byte_transposition(false));
    for (std::uint32_t i = 0; i < num_items; ++i) {
        const std::uint64_t mask = scratch.item_masks[i];
        const std::uint16_t* bags = grouped + std::size_t{kGroup} * scratch.item_groups[i];
        const __m512i members = _mm512_maskz_compress_epi8(mask, identity);  // indices of bags in the group
        const __m512i low = _mm512_loadu_si512(bags);
        const __m512i high = _mm512_loadu_si512(bags + 32);
        const auto count = static_cast<std::uint32_t>(__builtin_popcountll(mask));
        const __m512i first_half =
            _mm512_permutex2var_epi16(low, _mm512_cvtepu8_epi16(_mm512_castsi512_si256(members)), high);
        const auto second_half = [&] {
            return _mm512_permutex2var_epi16(low, _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(members, 1)), high);
        };
        item_offsets[i] = offset;
        if (offset + kGroup <= capacity) [[likely]] {  // what is written too much, the next item overwrites
            _mm512_storeu_si512(lists + offset, first_half);
            if (count > 32) [[unlikely]]
                _mm512_storeu_si512(lists + offset + 32, second_half());
        } else {
            const std::uint64_t present = _bzhi_u64(~std::uint64_t{0}, count);
            _mm512_mask_storeu_epi16(lists + offset, static_cast<__mmask32>(present), first_half);
            _mm512_mask_storeu_epi16(lists + offset + 32, static_cast<__mmask32>(present >> 32), second_half());
        }
        offset += count;
    }
    item_offsets[num_items] = offset;
    return offset;
}

// Appends the 64 inputs of a plane, from index `first` on, to the touched features if they have items. `max_touched` is
// the length of columns.touched. Returns the number of touched features.
template <class Index>
inline std::uint32_t append_touched(const Scratch& scratch, std::uint32_t first,
                                    batch::Columns<Index, std::uint16_t> columns, std::uint32_t touched,
                                    std::uint32_t max_touched) {
    std::uint32_t items_begin = 0;
    for (std::uint32_t input = 0; input < 64; ++input) {
        if (touched < max_touched) [[likely]]
            columns.touched[touched] = static_cast<Index>(first + input);
        columns.touched_offsets[touched] = scratch.item_offsets[items_begin];
        const std::uint32_t items_end = scratch.item_ends[input];
        touched += items_end != items_begin ? 1 : 0;  // else the next input overwrites it
        items_begin = items_end;
    }
    return touched;
}

// Appends the columns of piece inputs, from the boards, as count_columns does. `touched` features are there already,
// and end at `offset` of `num_active` entries of columns.bags. Returns the number of touched features then.
template <class Index>
inline std::uint32_t append_bit_columns(const FeatureSet& set, const PieceInputs* begin, const PieceInputs* end,
                                        std::uint32_t num_bags, std::uint32_t num_active, const Scratch& scratch,
                                        batch::Columns<Index, std::uint16_t> columns, std::uint32_t touched,
                                        std::uint32_t offset) {
    const std::uint32_t max_active = num_bags * set.max_active;
    const std::uint32_t max_touched = max_active < set.num_inputs ? max_active : set.num_inputs;
    for (const PieceInputs* inputs = begin; inputs != end; ++inputs) {
        std::uint32_t sizes[256];
        group_bags(*inputs, num_bags, scratch, sizes);
        const std::uint16_t* grouped = scratch.grouped;
        const std::size_t stride = block_words(*inputs);
        for (std::uint32_t bucket = 0; bucket < inputs->buckets; ++bucket) {
            const std::uint32_t num_groups = (sizes[bucket] + kGroup - 1) / kGroup;
            const std::uint32_t num_blocks = (num_groups + kBlock - 1) / kBlock;
            for (std::uint32_t block = 0; block < num_blocks; ++block) {
                const std::uint32_t first_bag = block * kBlock * kGroup;
                write_block(*inputs, scratch, num_bags / 2, grouped + first_bag, sizes[bucket] - first_bag,
                            scratch.masks + block * stride);
            }
            for (std::uint32_t plane = 0; plane < inputs->planes && num_groups != 0; ++plane) {
                const std::uint64_t* masks = scratch.masks + std::size_t{kBlock} * 64 * plane;
                const std::uint32_t num_items = collect_items(scratch, masks, stride, num_blocks);
                offset =
                    append_bags(scratch, num_items, grouped, columns.bags, offset, num_active, scratch.item_offsets);
                const std::uint32_t first = inputs->first + 64 * (bucket * inputs->planes + plane);
                touched = append_touched(scratch, first, columns, touched, max_touched);
            }
            grouped += std::size_t{num_groups} * kGroup;
        }
    }
    columns.touched_offsets[touched] = offset;
    return touched;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
