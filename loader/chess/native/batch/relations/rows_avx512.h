#pragma once

#include "chess/native/batch/bag_writer_avx512.h"
#include "chess/native/batch/relations/pawn_pairs_avx512.h"
#include "chess/native/batch/relations/threats_avx512.h"
#include "chess/native/batch/slot_arrays.h"

// Rows of feature sets with relations, and what the columns of threats are made from: threats are dealt out by the
// attacker's type on the way, since the columns of one type fit the nearer caches.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

// Threats of one view and one type of attacker, in order of samples: number << 15 | sample.
struct DealtThreats {
    static constexpr std::uint32_t kSampleBits = 15;

    Scratch scratch;
    alignas(64) std::uint32_t counts[16] = {};  // [2 * type + view]

    [[nodiscard]] std::uint32_t* of(std::uint32_t stream) const {
        return scratch.dealt + std::size_t{stream} * scratch.dealt_room;
    }

    // Whether there is room for another position.
    [[nodiscard]] bool has_room() const {
        const __m512i most = _mm512_set1_epi32(static_cast<int>(scratch.dealt_room - kMostThreats - kSlack));
        return _mm512_cmpgt_epu32_mask(_mm512_load_si512(counts), most) == 0;
    }

    // The items begin .. end - 1 of two vectors.
    void append(std::uint32_t stream, __m512i low, __m512i high, std::uint32_t begin, std::uint32_t end) {
        std::uint32_t* out = of(stream) + counts[stream];
        counts[stream] += end - begin;
        const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        do {
            const __m512i index = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(begin)));
            _mm512_storeu_si512(out, _mm512_permutex2var_epi32(low, index, high));
            out += 16;
            begin += 16;
        } while (begin < end);
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
inline std::uint32_t append_threats(const FeatureSet& set, const RelationBoard& board, const RelationView (&views)[2],
                                    std::uint32_t sample, std::uint32_t* const (&bags)[2], DealtThreats& dealt) {
    const Threats& threats = *set.threats;
    const Attacks attacks(threats, board, views);
    const __m512i codes = codes_by_square(board.position);
    const __m512i half = _mm512_set1_epi32(static_cast<int>(threats.half));
    const __m512i first = _mm512_set1_epi32(static_cast<int>(set.first_relation));
    const __m512i sample_lanes = _mm512_set1_epi32(static_cast<int>(sample));
    std::uint32_t counts[2] = {};  // the same when all are there
    for (std::uint32_t begin = 0; begin < attacks.count; begin += 32) {
        ThreatLanes lanes[2];
        number_threats(threats, attacks, begin, codes, views, lanes);
        for (unsigned view = 0; view < 2; ++view) {
            const ThreatLanes& found = lanes[view];
            __m512i low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(found.numbers));
            __m512i high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(found.numbers, 1));
            low = _mm512_mask_add_epi32(low, static_cast<__mmask16>(found.by_opponent), low, half);
            high = _mm512_mask_add_epi32(high, static_cast<__mmask16>(found.by_opponent >> 16), high, half);
            _mm512_storeu_si512(bags[view] + counts[view], _mm512_add_epi32(low, first));
            _mm512_storeu_si512(bags[view] + counts[view] + 16, _mm512_add_epi32(high, first));
            counts[view] += found.count();
            low = _mm512_or_si512(_mm512_slli_epi32(low, DealtThreats::kSampleBits), sample_lanes);
            high = _mm512_or_si512(_mm512_slli_epi32(high, DealtThreats::kSampleBits), sample_lanes);
            std::uint32_t place = 0;
            for (std::uint32_t type = 0; type < 6; ++type) {
                if (threats.targets[type] == 0) continue;
                const std::uint32_t end = attacks.ends[type] > begin ? attacks.ends[type] - begin : 0;
                const auto kept = static_cast<std::uint32_t>(__builtin_popcount(_bzhi_u32(found.kept, end < 32 ? end : 32)));
                dealt.append(2 * type + view, low, high, place, kept);
                place = kept;
            }
        }
    }
    return counts[0];
}

inline void append_pawn_pairs(const PawnPairs& pairs, std::uint32_t black, const RelationView (&views)[2],
                              std::uint32_t first, std::uint32_t* const (&bags)[2]) {
    const __m512i first_lanes = _mm512_set1_epi32(static_cast<int>(first));
    for (std::uint32_t begin = 0; begin < pairs.count; begin += 32) {
        for (unsigned view = 0; view < 2; ++view) {
            store_numbers(pairs.numbers(begin, black, views[view]), first_lanes, bags[view] + begin);
        }
    }
}

// What write_rows_with_relations does. False if this is not for such positions: of no game, with more relations than
// a bag holds or more pawns than there are.
inline bool write_rows_and_deal(const FeatureSet& set, std::uint32_t batch_size, const Scratch& scratch,
                                const SlotArrays& slot, DealtThreats& dealt) {
    auto* const own = static_cast<std::uint32_t*>(slot.features);
    auto* const opponent = reinterpret_cast<std::uint32_t*>(scratch.opponents);
    std::uint32_t end = 0;
    slot.offsets[0] = 0;
    for (std::uint32_t i = 0; i < batch_size; ++i) {
        const Record& record = scratch.samples[i];
        const RelationBoard board(record);
        const std::uint8_t view_numbers[2] = {scratch.views[i], scratch.views[batch_size + i]};
        const RelationView views[2] = {RelationView(view_numbers[0]), RelationView(view_numbers[1])};
        const Bitboard pawns = set.pawn_pairs ? board.types[kPawn] : 0;
        if (count_squares(pawns) > kMostPawns || !dealt.has_room()) return false;
        const PieceLanes lanes(record);
        std::uint32_t count = count_squares(record.occupied);
        count = count < 32 ? count : 32;
        write_bag_and_more(set, lanes, view_numbers[0], count, own + end);
        write_bag_and_more(set, lanes, view_numbers[1], count, opponent + end);
        const std::uint32_t pieces = count * static_cast<std::uint32_t>(set.parts.size());
        end += pieces;
        const PawnPairs pairs(pawns);
        std::uint32_t* const threat_bags[2] = {own + end, opponent + end};
        std::uint32_t relations = append_threats(set, board, views, i, threat_bags, dealt);
        std::uint32_t* const pair_bags[2] = {threat_bags[0] + relations, threat_bags[1] + relations};
        const auto black = static_cast<std::uint32_t>(_pext_u64(board.position.planes[0], pawns));
        append_pawn_pairs(pairs, black, views, set.first_relation + set.threats->num_inputs, pair_bags);
        relations += pairs.count;
        if (relations > set.max_active - pieces) return false;
        end += relations;
        slot.offsets[1 + i] = end;
    }
    std::memcpy(own + end, opponent, end * sizeof *own);
    for (std::uint32_t i = 0; i < batch_size; ++i) slot.offsets[1 + batch_size + i] = end + slot.offsets[1 + i];
    return true;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
