#pragma once

#include "batch/columns.h"
#include "chess/native/batch/relations/rows_avx512.h"

// Columns of threats: a counting sort.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

// Returns the inclusive prefix sums of 16 lanes: log2(16) steps of adding the lanes shifted by 1, 2, 4, 8.
[[nodiscard, gnu::always_inline]] inline __m512i prefix_sums(__m512i values) {
    const __m512i zero = _mm512_setzero_si512();
    __m512i sums = values;
    sums = _mm512_add_epi32(sums, _mm512_alignr_epi32(sums, zero, 15));
    sums = _mm512_add_epi32(sums, _mm512_alignr_epi32(sums, zero, 14));
    sums = _mm512_add_epi32(sums, _mm512_alignr_epi32(sums, zero, 12));
    return _mm512_add_epi32(sums, _mm512_alignr_epi32(sums, zero, 8));
}

// Turns the counts of features into the offsets of their lists, from 0 on, and lists the features that occur, with the
// offsets of their lists from `first_offset` on. Feature i has the index first + i. Returns how many occur.
template <class Index>
inline std::uint32_t counts_to_offsets(std::uint32_t* counts, std::uint32_t num_inputs, std::uint32_t first,
                                       std::uint32_t first_offset, Index* touched, std::uint32_t* touched_offsets) {
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i last_lane = _mm512_set1_epi32(15);
    __m512i total = _mm512_setzero_si512();  // of all counts before these 16, in each lane
    std::uint32_t num_touched = 0;
    for (std::uint32_t begin = 0; begin < num_inputs; begin += 16) {
        const std::uint32_t remaining = num_inputs - begin;
        const auto inside = static_cast<__mmask16>(remaining < 16 ? (1U << remaining) - 1 : 0xFFFF);
        const __m512i count = _mm512_maskz_loadu_epi32(inside, counts + begin);
        const __mmask16 not_zero = _mm512_test_epi32_mask(count, count);
        if (not_zero == 0) continue;
        const __m512i ends = _mm512_add_epi32(prefix_sums(count), total);
        const __m512i begins = _mm512_sub_epi32(ends, count);
        total = _mm512_permutexvar_epi32(last_lane, ends);
        _mm512_mask_storeu_epi32(counts + begin, inside, begins);
        const auto num_features = static_cast<std::uint32_t>(__builtin_popcount(not_zero));
        const auto present = static_cast<__mmask16>((1U << num_features) - 1);
        const __m512i indices = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(first + begin)));
        const __m512i offsets = _mm512_add_epi32(begins, _mm512_set1_epi32(static_cast<int>(first_offset)));
        _mm512_mask_storeu_epi32(touched + num_touched, present, _mm512_maskz_compress_epi32(not_zero, indices));
        _mm512_mask_storeu_epi32(touched_offsets + num_touched, present,
                                 _mm512_maskz_compress_epi32(not_zero, offsets));
        num_touched += num_features;
    }
    return num_touched;
}

// Appends the columns of the threats to those of the pieces: `touched` features, which end at `offset`. Returns the
// number of touched features then.
inline std::uint32_t append_threat_columns(const FeatureSet& set, std::uint32_t batch_size, const ThreatItems& items,
                                           const Scratch& scratch, batch::Columns<std::uint32_t, std::uint16_t> columns,
                                           std::uint32_t touched, std::uint32_t offset) {
    constexpr std::uint32_t kBits = ThreatItems::kSampleBits;
    constexpr std::uint32_t kSampleMask = (1U << kBits) - 1;
    std::uint32_t* counts = scratch.counts;
    auto* lists = reinterpret_cast<std::uint16_t*>(scratch.bags);  // nearer than the slot (columns.h)
    for (unsigned view = 0; view < 2; ++view) {
        const std::uint32_t* threats = items.of_view[view];
        for (std::uint32_t i = 0; i < items.counts[view]; ++i) ++counts[threats[i] >> kBits];
    }
    touched += counts_to_offsets(counts, set.threats->num_inputs, set.first_relation, offset, columns.touched + touched,
                                 columns.touched_offsets + touched);
    std::uint32_t* next = counts;  // now the offset of each list's next entry
    for (unsigned view = 0; view < 2; ++view) {
        const std::uint32_t* threats = items.of_view[view];
        const std::uint32_t first_bag = view * batch_size;
        for (std::uint32_t i = 0; i < items.counts[view]; ++i) {
            const std::uint32_t entry = next[threats[i] >> kBits]++;
            lists[entry] = static_cast<std::uint16_t>(first_bag + (threats[i] & kSampleMask));
        }
    }
    std::memset(counts, 0, set.threats->num_inputs * sizeof *counts);
    const std::uint32_t total = items.counts[0] + items.counts[1];
    std::memcpy(columns.bags + offset, lists, total * sizeof *lists);
    columns.touched_offsets[touched] = offset + total;
    return touched;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
