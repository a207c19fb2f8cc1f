#pragma once

#include "batch/columns.h"
#include "chess/native/batch/bit_boards_avx512.h"

// Columns of a batch by bit matrix, without a counter or a random access per feature: a batch is built in half the time
// that the counting sort takes. Bags of one king bucket share their inputs, so they are taken 64 at a time; turned
// round, their boards say for each of these inputs which of the 64 have it; and going through the inputs in order, and
// through the groups for each, the lists come out in order, one behind the other.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

inline constexpr std::uint32_t kBlock = 8;  // groups whose words for one input are a cache line

// Words from one block of groups to the next. An odd number of cache lines: a power of two, or 11 of them, would put
// the lines of one input into few sets of the cache.
[[nodiscard]] inline std::size_t block_words(const Part& part) {
    return std::size_t{kBlock} * (part.plane_inputs() | 1);
}

// Bags in order of king bucket, otherwise ascending, each bucket from a multiple of 64. `sizes` are the bags of each.
inline void group_bags(const Part& part, std::uint32_t num_bags, Scratch scratch, std::uint32_t* sizes) {
    std::uint32_t next[256];
    std::memset(sizes, 0, part.buckets * sizeof *sizes);
    for (std::uint32_t bag = 0; bag < num_bags; ++bag) ++sizes[part.bucket[scratch.views[bag]]];
    std::uint32_t begin = 0;
    for (std::uint32_t bucket = 0; bucket < part.buckets; ++bucket) {
        next[bucket] = begin;
        begin += (sizes[bucket] + kGroup - 1) / kGroup * kGroup;
    }
    for (std::uint32_t bag = 0; bag < num_bags; ++bag) {
        scratch.grouped[next[part.bucket[scratch.views[bag]]]++] = static_cast<std::uint16_t>(bag);
    }
}

// The words of up to eight groups, from `bags` on: masks[8 * input + group].
inline void write_block(const Part& part, Scratch scratch, std::uint32_t batch_size, const std::uint16_t* bags,
                        std::uint32_t count, std::uint64_t* masks) {
    BagBoards loaded;
    GroupBoards groups[kBlock];
    for (std::uint32_t group = 0; group < kBlock; ++group) {
        const std::uint32_t begin = group * kGroup;
        const std::uint32_t size = begin < count ? (count - begin < kGroup ? count - begin : kGroup) : 0;
        load_bags(part, scratch, batch_size, bags + begin, size, loaded);
        turn_boards(loaded, groups[group]);
    }
    __m512i pieces[kBlock][12];
    for (int rank = 0; rank < 8; ++rank) {
        for (std::uint32_t group = 0; group < kBlock; ++group) {
            split_pieces(groups[group], rank, part.planes == 11, pieces[group]);
        }
        for (std::uint32_t plane = 0; plane < part.planes; ++plane) {
            __m512i words[8];
            for (std::uint32_t group = 0; group < kBlock; ++group) words[group] = pieces[group][part.pieces[plane]];
            transpose_words(words);
            std::uint64_t* out = masks + kBlock * (64 * plane + 8 * static_cast<std::uint32_t>(rank));
            for (int file = 0; file < 8; ++file) _mm512_store_si512(out + 8 * file, words[file]);
        }
    }
}

// The words of 64 inputs that are not zero, input by input, with the number of their group; gives back how many.
// item_ends[i] is where those of input i end.
inline std::uint32_t collect_items(Scratch scratch, const std::uint64_t* masks, std::size_t stride,
                                   std::uint32_t num_blocks) {
    std::uint32_t count = 0;
    for (std::uint32_t input = 0; input < 64; ++input) {
        __m128i groups = _mm_set_epi16(7, 6, 5, 4, 3, 2, 1, 0);
        for (std::uint32_t block = 0; block < num_blocks; ++block) {
            const __m512i words = _mm512_load_si512(masks + block * stride + kBlock * input);
            const __mmask8 some = _mm512_test_epi64_mask(words, words);
            _mm512_storeu_si512(scratch.item_masks + count, _mm512_maskz_compress_epi64(some, words));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(scratch.item_groups + count),
                             _mm_maskz_compress_epi16(some, groups));
            groups = _mm_add_epi16(groups, _mm_set1_epi16(kBlock));
            count += static_cast<std::uint32_t>(__builtin_popcount(some));
        }
        scratch.item_ends[input] = count;
    }
    return count;
}

// Appends the bags of each item to `lists` from `place` on, where there is room for `room` in all. Notes where each
// item begins, and gives back where the last ends.
inline std::uint32_t append_bags(Scratch scratch, std::uint32_t num_items, const std::uint16_t* grouped,
                                 std::uint16_t* lists, std::uint32_t place, std::uint32_t room,
                                 std::uint32_t* item_places) {
    const __m512i all = _mm512_permutexvar_epi8(byte_transposition(false), byte_transposition(false));  // 0, 1, ... 63
    for (std::uint32_t i = 0; i < num_items; ++i) {
        const std::uint64_t mask = scratch.item_masks[i];
        const std::uint16_t* bags = grouped + std::size_t{kGroup} * scratch.item_groups[i];
        const __m512i members = _mm512_maskz_compress_epi8(mask, all);
        const __m512i low = _mm512_loadu_si512(bags);
        const __m512i high = _mm512_loadu_si512(bags + 32);
        const auto count = static_cast<std::uint32_t>(__builtin_popcountll(mask));
        const __m512i first =
            _mm512_permutex2var_epi16(low, _mm512_cvtepu8_epi16(_mm512_castsi512_si256(members)), high);
        const auto rest = [&] {
            return _mm512_permutex2var_epi16(low, _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(members, 1)), high);
        };
        item_places[i] = place;
        if (place + kGroup <= room) [[likely]] {  // what is written too much, the next item overwrites
            _mm512_storeu_si512(lists + place, first);
            if (count > 32) [[unlikely]]
                _mm512_storeu_si512(lists + place + 32, rest());
        } else {
            const std::uint64_t present = _bzhi_u64(~std::uint64_t{0}, count);
            _mm512_mask_storeu_epi16(lists + place, static_cast<__mmask32>(present), first);
            _mm512_mask_storeu_epi16(lists + place + 32, static_cast<__mmask32>(present >> 32), rest());
        }
        place += count;
    }
    item_places[num_items] = place;
    return place;
}

// What count_columns does, for these parts from the boards: appends their columns to `touched` features that end at
// `place` of `active`. Gives back how many features there are then.
template <class Number>
inline std::uint32_t bit_columns(const FeatureSet& set, const Part* part, const Part* end, std::uint32_t num_bags,
                                 std::uint32_t active, const Scratch& scratch,
                                 batch::Columns<Number, std::uint16_t> columns, std::uint32_t touched,
                                 std::uint32_t place) {
    const std::uint32_t room = num_bags * set.max_active < set.num_inputs ? num_bags * set.max_active : set.num_inputs;
    for (; part != end; ++part) {
        std::uint32_t sizes[256];
        group_bags(*part, num_bags, scratch, sizes);
        const std::uint16_t* grouped = scratch.grouped;
        const std::size_t stride = block_words(*part);
        for (std::uint32_t bucket = 0; bucket < part->buckets; ++bucket) {
            const std::uint32_t num_groups = (sizes[bucket] + kGroup - 1) / kGroup;
            const std::uint32_t num_blocks = (num_groups + kBlock - 1) / kBlock;
            for (std::uint32_t block = 0; block < num_blocks; ++block) {
                const std::uint32_t begin = block * kBlock * kGroup;
                write_block(*part, scratch, num_bags / 2, grouped + begin, sizes[bucket] - begin,
                            scratch.masks + block * stride);
            }
            for (std::uint32_t plane = 0; plane < part->planes && num_groups != 0; ++plane) {
                const std::uint32_t items =
                    collect_items(scratch, scratch.masks + std::size_t{kBlock} * 64 * plane, stride, num_blocks);
                place = append_bags(scratch, items, grouped, columns.bags, place, active, scratch.item_places);
                std::uint32_t number = part->first + 64 * (bucket * part->planes + plane);
                std::uint32_t begin = 0;
                for (std::uint32_t input = 0; input < 64; ++input, ++number) {
                    if (touched < room) [[likely]]
                        columns.touched[touched] = static_cast<Number>(number);
                    columns.touched_offsets[touched] = scratch.item_places[begin];
                    touched += scratch.item_ends[input] != begin ? 1 : 0;
                    begin = scratch.item_ends[input];
                }
            }
            grouped += std::size_t{num_groups} * kGroup;
        }
    }
    columns.touched_offsets[touched] = place;
    return touched;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
