#pragma once

#include "batch/columns.h"
#include "chess/native/batch/relations/rows_avx512.h"

// Columns of threats: a counting sort.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

// Turns counts into places, counting from 0, and lists the features that have any; gives back how many.
template <class Number>
inline std::uint32_t places_of_counts(std::uint32_t* counts, std::uint32_t num_inputs, std::uint32_t first,
                                      std::uint32_t place, Number* touched, std::uint32_t* touched_offsets) {
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i last = _mm512_set1_epi32(15);
    __m512i before = _mm512_setzero_si512();  // the sum of all counts up to here
    std::uint32_t found = 0;
    for (std::uint32_t begin = 0; begin < num_inputs; begin += 16) {
        const std::uint32_t rest = num_inputs - begin;
        const auto inside = static_cast<__mmask16>(rest < 16 ? (1U << rest) - 1 : 0xFFFF);
        const __m512i count = _mm512_maskz_loadu_epi32(inside, counts + begin);
        const __mmask16 some = _mm512_test_epi32_mask(count, count);
        if (some == 0) continue;
        __m512i sum = count;
        const __m512i zero = _mm512_setzero_si512();
        sum = _mm512_add_epi32(sum, _mm512_alignr_epi32(sum, zero, 15));
        sum = _mm512_add_epi32(sum, _mm512_alignr_epi32(sum, zero, 14));
        sum = _mm512_add_epi32(sum, _mm512_alignr_epi32(sum, zero, 12));
        sum = _mm512_add_epi32(sum, _mm512_alignr_epi32(sum, zero, 8));
        sum = _mm512_add_epi32(sum, before);
        const __m512i places = _mm512_sub_epi32(sum, count);
        before = _mm512_permutexvar_epi32(last, sum);
        _mm512_mask_storeu_epi32(counts + begin, inside, places);
        const auto num = static_cast<std::uint32_t>(__builtin_popcount(some));
        const auto present = static_cast<__mmask16>((1U << num) - 1);
        const __m512i numbers = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(first + begin)));
        const __m512i offsets = _mm512_add_epi32(places, _mm512_set1_epi32(static_cast<int>(place)));
        _mm512_mask_storeu_epi32(touched + found, present, _mm512_maskz_compress_epi32(some, numbers));
        _mm512_mask_storeu_epi32(touched_offsets + found, present, _mm512_maskz_compress_epi32(some, offsets));
        found += num;
    }
    return found;
}

// Appends the columns of the threats to those of the pieces: `touched` features, which end at `place`. Gives back how
// many features there are now.
inline std::uint32_t threat_columns(const FeatureSet& set, std::uint32_t batch_size, const ThreatItems& items,
                                    const Scratch& scratch, batch::Columns<std::uint32_t, std::uint16_t> columns,
                                    std::uint32_t touched, std::uint32_t place) {
    constexpr std::uint32_t kBits = ThreatItems::kSampleBits;
    std::uint32_t* places = scratch.counts;
    auto* lists = reinterpret_cast<std::uint16_t*>(scratch.bags);  // nearer than the slot (columns.h)
    for (unsigned view = 0; view < 2; ++view) {
        const std::uint32_t* of_view = items.of_view[view];
        for (std::uint32_t i = 0; i < items.counts[view]; ++i) ++places[of_view[i] >> kBits];
    }
    touched += places_of_counts(places, set.threats->num_inputs, set.first_relation, place, columns.touched + touched,
                                columns.touched_offsets + touched);
    for (unsigned view = 0; view < 2; ++view) {
        const std::uint32_t* of_view = items.of_view[view];
        const std::uint32_t first_bag = view * batch_size;
        for (std::uint32_t i = 0; i < items.counts[view]; ++i) {
            const std::uint32_t at = places[of_view[i] >> kBits]++;
            lists[at] = static_cast<std::uint16_t>(first_bag + (of_view[i] & ((1U << kBits) - 1)));
        }
    }
    std::memset(places, 0, set.threats->num_inputs * sizeof *places);
    const std::uint32_t total = items.counts[0] + items.counts[1];
    std::memcpy(columns.bags + place, lists, total * sizeof *lists);
    columns.touched_offsets[touched] = place + total;
    return touched;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
