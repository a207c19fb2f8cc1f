#pragma once

#include "chess/native/batch/bag_writer_avx512.h"
#include "chess/native/batch/relations/pawn_pairs_avx512.h"
#include "chess/native/batch/relations/threats_avx512.h"
#include "chess/native/batch/slot_arrays.h"

// Rows of feature sets with relations, and the list from which the columns of threats are built.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

// The threats of each view in the order of samples: index << 15 | sample.
struct ThreatItems {
    static constexpr std::uint32_t kSampleBits = 15;

    std::uint32_t* of_view[2];
    std::uint32_t counts[2] = {};

    explicit ThreatItems(const Scratch& scratch)
        : of_view{scratch.threats, scratch.threats + scratch.threats_capacity} {}

    // Appends two vectors, of which `count` lanes are valid.
    void append(unsigned view, __m512i low, __m512i high, std::uint32_t count) {
        _mm512_storeu_si512(of_view[view] + counts[view], low);
        _mm512_storeu_si512(of_view[view] + counts[view] + 16, high);
        counts[view] += count;
    }
};

// Stores 32 indices of 16 bits as 32-bit indices, each increased by `first`.
inline void store_indices(__m512i indices, __m512i first, std::uint32_t* out) {
    const __m512i low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(indices));
    const __m512i high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(indices, 1));
    _mm512_storeu_si512(out, _mm512_add_epi32(low, first));
    _mm512_storeu_si512(out + 16, _mm512_add_epi32(high, first));
}

// Writes the threats of both bags, 32 attacks at a time, and appends them to `items`. Returns how many each bag has.
inline std::uint32_t append_threats(const FeatureSet& set, const Attacks& attacks, const RelationView (&views)[2],
                                    std::uint32_t sample, std::uint32_t* const (&bags)[2], ThreatItems& items) {
    const Threats& threats = *set.threats;
    const __m512i half = _mm512_set1_epi32(static_cast<int>(threats.half));
    const __m512i first = _mm512_set1_epi32(static_cast<int>(set.first_relation));
    const __m512i sample_lanes = _mm512_set1_epi32(static_cast<int>(sample));
    std::uint32_t counts[2] = {};  // equal at the end
    for (std::uint32_t begin = 0; begin < attacks.count; begin += 32) {
        ThreatLanes lanes[2];
        index_threats(threats, attacks, begin, views, lanes);
        for (unsigned view = 0; view < 2; ++view) {
            const ThreatLanes& view_lanes = lanes[view];
            __m512i low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(view_lanes.indices));
            __m512i high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(view_lanes.indices, 1));
            low = _mm512_mask_add_epi32(low, static_cast<__mmask16>(view_lanes.by_opponent), low, half);
            high = _mm512_mask_add_epi32(high, static_cast<__mmask16>(view_lanes.by_opponent >> 16), high, half);
            _mm512_storeu_si512(bags[view] + counts[view], _mm512_add_epi32(low, first));
            _mm512_storeu_si512(bags[view] + counts[view] + 16, _mm512_add_epi32(high, first));
            counts[view] += view_lanes.count();
            low = _mm512_or_si512(_mm512_slli_epi32(low, ThreatItems::kSampleBits), sample_lanes);
            high = _mm512_or_si512(_mm512_slli_epi32(high, ThreatItems::kSampleBits), sample_lanes);
            items.append(view, low, high, view_lanes.count());
        }
    }
    return counts[0];
}

// Writes the pawn pairs of both bags, 32 at a time.
inline void append_pawn_pairs(const PawnPairs& pairs, const RelationView (&views)[2], std::uint32_t first,
                              std::uint32_t* const (&bags)[2]) {
    const __m512i first_lanes = _mm512_set1_epi32(static_cast<int>(first));
    for (std::uint32_t begin = 0; begin < pairs.count; begin += 32) {
        for (unsigned view = 0; view < 2; ++view) {
            store_indices(pairs.pair_indices(begin, views[view]), first_lanes, bags[view] + begin);
        }
    }
}

// The attacks and pairs of pawns of a position.
struct PositionRelations {
    RelationView views[2] = {RelationView(0), RelationView(0)};
    Attacks attacks;
    PawnPairs pairs;

    // Returns false if there are more pieces or pawns than any game has.
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

// Writes a sample's features from `end` of the bags on: pieces, threats, pawn pairs. Returns where they end; 0 if the
// bags do not have room for them.
inline std::uint32_t write_sample(const FeatureSet& set, const Scratch& scratch, std::uint32_t batch_size,
                                  std::uint32_t sample, const PositionRelations& position, std::uint32_t* own,
                                  std::uint32_t* opponent, std::uint32_t end, ThreatItems& items) {
    const Record& record = scratch.samples[sample];
    const PieceLanes lanes(record);
    const std::uint32_t num_pieces = count_squares(record.occupied);
    write_bag_and_more(set, lanes, scratch.views[sample], num_pieces, own + end);
    write_bag_and_more(set, lanes, scratch.views[batch_size + sample], num_pieces, opponent + end);
    const std::uint32_t num_piece_features = num_pieces * static_cast<std::uint32_t>(set.piece_inputs.size());
    end += num_piece_features;
    std::uint32_t* const threat_bags[2] = {own + end, opponent + end};
    const std::uint32_t num_threats = append_threats(set, position.attacks, position.views, sample, threat_bags, items);
    std::uint32_t* const pair_bags[2] = {threat_bags[0] + num_threats, threat_bags[1] + num_threats};
    const std::uint32_t first_pair = set.first_relation + set.threats->num_inputs;
    append_pawn_pairs(position.pairs, position.views, first_pair, pair_bags);
    const std::uint32_t num_relations = num_threats + position.pairs.count;
    const bool fits = num_relations <= set.max_active - num_piece_features;
    return fits ? end + num_relations : 0;
}

// Writes the rows as write_rows_with_relations does, and collects the items. Returns false if a position is one of no
// game: it has more relations than a bag holds, or more pieces or pawns than there are. Then the batch needs the other
// function.
inline bool write_rows_and_items(const FeatureSet& set, std::uint32_t batch_size, const Scratch& scratch,
                                 const SlotArrays& slot, ThreatItems& items) {
    // Several positions are prepared before the first is written: vectors loaded right after their bytes were stored
    // wait.
    constexpr std::uint32_t kTogether = 8;
    auto* const own = static_cast<std::uint32_t*>(slot.features);
    auto* const opponent = reinterpret_cast<std::uint32_t*>(scratch.opponents);
    PositionRelations positions[kTogether];
    std::uint32_t end = 0;
    slot.offsets[0] = 0;
    for (std::uint32_t begin = 0; begin < batch_size; begin += kTogether) {
        const std::uint32_t size = batch_size - begin < kTogether ? batch_size - begin : kTogether;
        for (std::uint32_t i = 0; i < size; ++i) {
            const std::uint32_t sample = begin + i;
            const std::uint8_t own_view = scratch.views[sample];
            const std::uint8_t opponent_view = scratch.views[batch_size + sample];
            if (!positions[i].find(set, scratch.samples[sample], own_view, opponent_view)) return false;
        }
        for (std::uint32_t i = 0; i < size; ++i) {
            const std::uint32_t sample = begin + i;
            end = write_sample(set, scratch, batch_size, sample, positions[i], own, opponent, end, items);
            if (end == 0) return false;
            slot.offsets[1 + sample] = end;
        }
    }
    std::memcpy(own + end, opponent, end * sizeof *own);
    for (std::uint32_t i = 0; i < batch_size; ++i) slot.offsets[1 + batch_size + i] = end + slot.offsets[1 + i];
    return true;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
