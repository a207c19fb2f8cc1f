#pragma once

#include "chess/native/batch/bag_writer_avx512.h"
#include "chess/native/batch/relations/pawn_pairs_avx512.h"
#include "chess/native/batch/relations/threats_avx512.h"
#include "chess/native/batch/slot_arrays.h"

// Rows of feature sets with relations, and what the columns of threats are made from.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

// Threats of each view in order of samples: number << 15 | sample.
struct ThreatItems {
    static constexpr std::uint32_t kSampleBits = 15;

    std::uint32_t* of_view[2];
    std::uint32_t counts[2] = {};

    explicit ThreatItems(const Scratch& scratch) : of_view{scratch.threats, scratch.threats + scratch.threats_room} {}

    // Appends two vectors, of which `count` lanes are valid.
    void append(unsigned view, __m512i low, __m512i high, std::uint32_t count) {
        _mm512_storeu_si512(of_view[view] + counts[view], low);
        _mm512_storeu_si512(of_view[view] + counts[view] + 16, high);
        counts[view] += count;
    }
};

// Appends 32 numbers, each `first` more than the lane says.
inline void store_numbers(__m512i numbers, __m512i first, std::uint32_t* out) {
    const __m512i low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(numbers));
    const __m512i high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(numbers, 1));
    _mm512_storeu_si512(out, _mm512_add_epi32(low, first));
    _mm512_storeu_si512(out + 16, _mm512_add_epi32(high, first));
}

// Writes both bags' threats, 32 lanes a time; gives back how many each has.
inline std::uint32_t append_threats(const FeatureSet& set, const Attacks& attacks, const RelationView (&views)[2],
                                    std::uint32_t sample, std::uint32_t* const (&bags)[2], ThreatItems& items) {
    const Threats& threats = *set.threats;
    const __m512i half = _mm512_set1_epi32(static_cast<int>(threats.half));
    const __m512i first = _mm512_set1_epi32(static_cast<int>(set.first_relation));
    const __m512i sample_lanes = _mm512_set1_epi32(static_cast<int>(sample));
    std::uint32_t counts[2] = {};  // the same when all are there
    for (std::uint32_t begin = 0; begin < attacks.count; begin += 32) {
        ThreatLanes lanes[2];
        number_threats(threats, attacks, begin, views, lanes);
        for (unsigned view = 0; view < 2; ++view) {
            const ThreatLanes& found = lanes[view];
            __m512i low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(found.numbers));
            __m512i high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(found.numbers, 1));
            low = _mm512_mask_add_epi32(low, static_cast<__mmask16>(found.by_opponent), low, half);
            high = _mm512_mask_add_epi32(high, static_cast<__mmask16>(found.by_opponent >> 16), high, half);
            _mm512_storeu_si512(bags[view] + counts[view], _mm512_add_epi32(low, first));
            _mm512_storeu_si512(bags[view] + counts[view] + 16, _mm512_add_epi32(high, first));
            counts[view] += found.count();
            low = _mm512_or_si512(_mm512_slli_epi32(low, ThreatItems::kSampleBits), sample_lanes);
            high = _mm512_or_si512(_mm512_slli_epi32(high, ThreatItems::kSampleBits), sample_lanes);
            items.append(view, low, high, found.count());
        }
    }
    return counts[0];
}

inline void append_pawn_pairs(const PawnPairs& pairs, const RelationView (&views)[2], std::uint32_t first,
                              std::uint32_t* const (&bags)[2]) {
    const __m512i first_lanes = _mm512_set1_epi32(static_cast<int>(first));
    for (std::uint32_t begin = 0; begin < pairs.count; begin += 32) {
        for (unsigned view = 0; view < 2; ++view) {
            store_numbers(pairs.numbers(begin, views[view]), first_lanes, bags[view] + begin);
        }
    }
}

// A position whose attacks and pairs of pawns are known.
struct RelatedPieces {
    RelationView views[2] = {RelationView(0), RelationView(0)};
    Attacks attacks;
    PawnPairs pairs;

    // False if there are more pieces or pawns than in any game.
    bool find(const FeatureSet& set, const Record& record, std::uint8_t own_view, std::uint8_t opponent_view) {
        const RelationBoard board(record);
        const Bitboard pawns = set.pawn_pairs ? board.types[kPawn] : 0;
        if (count_squares(record.occupied) > 32 || count_squares(pawns) > kMaxPawnScore) return false;
        views[0] = RelationView(own_view);
        views[1] = RelationView(opponent_view);
        attacks.find(*set.threats, board, views);
        pairs.find(pawns, board.position.planes[0]);
        return true;
    }
};

// What write_rows_with_relations does, and the items. False if this is not for one of the positions, which is then of
// no game: it has more relations than a bag holds, or more pieces or pawns than there are.
inline bool write_rows_and_items(const FeatureSet& set, std::uint32_t batch_size, const Scratch& scratch,
                                 const SlotArrays& slot, ThreatItems& items) {
    constexpr std::uint32_t kTogether = 8;  // what is stored in bytes is not loaded at once as vectors
    auto* const own = static_cast<std::uint32_t*>(slot.features);
    auto* const opponent = reinterpret_cast<std::uint32_t*>(scratch.opponents);
    RelatedPieces found[kTogether];
    std::uint32_t end = 0;
    slot.offsets[0] = 0;
    for (std::uint32_t begin = 0; begin < batch_size; begin += kTogether) {
        const std::uint32_t size = batch_size - begin < kTogether ? batch_size - begin : kTogether;
        for (std::uint32_t i = 0; i < size; ++i) {
            const std::uint32_t sample = begin + i;
            if (!found[i].find(set, scratch.samples[sample], scratch.views[sample], scratch.views[batch_size + sample]))
                return false;
        }
        for (std::uint32_t i = 0; i < size; ++i) {
            const std::uint32_t sample = begin + i;
            const Record& record = scratch.samples[sample];
            const PieceLanes lanes(record);
            const std::uint32_t count = count_squares(record.occupied);
            write_bag_and_more(set, lanes, scratch.views[sample], count, own + end);
            write_bag_and_more(set, lanes, scratch.views[batch_size + sample], count, opponent + end);
            const std::uint32_t pieces = count * static_cast<std::uint32_t>(set.parts.size());
            end += pieces;
            std::uint32_t* const threat_bags[2] = {own + end, opponent + end};
            const std::uint32_t threats =
                append_threats(set, found[i].attacks, found[i].views, sample, threat_bags, items);
            std::uint32_t* const pair_bags[2] = {threat_bags[0] + threats, threat_bags[1] + threats};
            append_pawn_pairs(found[i].pairs, found[i].views, set.first_relation + set.threats->num_inputs, pair_bags);
            const std::uint32_t relations = threats + found[i].pairs.count;
            if (relations > set.max_active - pieces) return false;
            end += relations;
            slot.offsets[1 + sample] = end;
        }
    }
    std::memcpy(own + end, opponent, end * sizeof *own);
    for (std::uint32_t i = 0; i < batch_size; ++i) slot.offsets[1 + batch_size + i] = end + slot.offsets[1 + i];
    return true;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
