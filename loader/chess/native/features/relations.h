#pragma once

#include "chess/native/features/feature_set.h"
#include "chess/native/features/pawn_pairs.h"
#include "chess/native/features/threats.h"

// Relations: the threats of three generations of Stockfish's networks, and pairs of pawns. Their inputs follow those of
// the pieces. Files of networks may have them in another order (pool/tasks/chess/stockfish).
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

// Adds threats to a set. At most 128 of them are active: more than trainers of these networks have room for. The most
// in random games were 46 and 33.
[[nodiscard]] inline FeatureSet add_threats(FeatureSet set, const Threats& threats) {
    set.threats = &threats;
    set.num_inputs += threats.num_inputs;
    set.max_active += 128;
    return set;
}

// Adds pawn pairs to a set. At most 96 are active, the most pairs of 16 pawns on three files. The most seen were 36.
[[nodiscard]] inline FeatureSet add_pawn_pairs(FeatureSet set) {
    set.pawn_pairs = true;
    set.num_inputs += kNumPawnPairs;
    set.max_active += 96;
    return set;
}

}  // namespace sparsepool::chess
