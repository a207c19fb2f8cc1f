#pragma once

#include "chess/native/features/feature_set.h"
#include "chess/native/features/pawn_pairs.h"
#include "chess/native/features/threats.h"

// Relations behind the pieces of a set: the threats of Stockfish's networks of three generations, and pairs of pawns.
// Files of networks may have them in another order (pool/tasks/chess/stockfish).
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

inline constexpr Threats kThreatsV11 = make_threats({{
    {0, 1, -1, 2, -1, -1},
    {0, 1, 2, 3, 4, -1},
    {0, 1, 2, 3, -1, -1},
    {0, 1, 2, 3, -1, -1},
    {0, 1, 2, 3, 4, -1},
    {0, 1, 2, 3, -1, -1},
}});
static_assert(kThreatsV11.num_inputs == 66'864);

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
[[nodiscard]] inline FeatureSet add_threats(FeatureSet set, const Threats& threats) {
    set.threats = &threats;
    set.num_inputs += threats.num_inputs;
    set.max_active += 128;
    return set;
}

// 96: the most pairs of 16 pawns on three files; 36 are the most seen.
[[nodiscard]] inline FeatureSet add_pawn_pairs(FeatureSet set) {
    set.pawn_pairs = true;
    set.num_inputs += kNumPawnPairs;
    set.max_active += 96;
    return set;
}

}  // namespace sparsepool::chess
