#pragma once

#include "chess/native/features/halfka_v2_hm.h"
#include "chess/native/features/pawn_pairs.h"
#include "chess/native/features/threats.h"

// The inputs of Stockfish's networks with threats: HalfKAv2_hm first, then threats, then pawn pairs. Files have them
// in another order (pool/tasks/stockfish).
namespace sparsepool::chess {

inline constexpr Threats kThreatsV10 = make_threats({{
    {0, 1, -1, 2, -1, -1},
    {0, 1, 2, 3, 4, 5},
    {0, 1, 2, 3, -1, 4},
    {0, 1, 2, 3, -1, 4},
    {0, 1, 2, 3, 4, 5},
    {0, 1, 2, 3, -1, -1},
}});
static_assert(kThreatsV10.num_inputs == 79'856);

inline constexpr Threats kThreatsV16 = make_threats({{
    {-1, 0, -1, 1, -1, -1},
    {0, 1, 2, 3, 4, -1},
    {0, 1, 2, 3, -1, -1},
    {0, 1, 2, 3, -1, -1},
    {0, 1, 2, 3, 4, -1},
    {-1, -1, -1, -1, -1, -1},
}});
static_assert(kThreatsV16.num_inputs == 59'808);

// 128 threats are more than trainers of these networks have room for; 46 and 33 are the most seen in random games.
[[nodiscard]] inline FeatureSet with_threats(FeatureSet set, const Threats& threats) {
    set.threats = &threats;
    set.num_inputs += threats.num_inputs;
    set.max_active += 128;
    return set;
}

[[nodiscard]] inline FeatureSet make_sfnn_v10(const FeatureSettings& settings) {
    return with_threats(make_halfka_v2_hm(settings), kThreatsV10);
}

// 96: the most pairs of 16 pawns on three files; 36 are the most seen.
[[nodiscard]] inline FeatureSet make_sfnn_v16(const FeatureSettings& settings) {
    FeatureSet set = with_threats(make_halfka_v2_hm(settings), kThreatsV16);
    set.pawn_pairs = true;
    set.num_inputs += kNumPawnPairs;
    set.max_active += 96;
    return set;
}

}  // namespace sparsepool::chess
