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
inline constexpr FeatureSet kSfnnV10{"SFNNv10", kHalfKAv2Hm.num_inputs + kThreatsV10.num_inputs, 32 + 128,
                                     kHalfKAv2HmParts, &kThreatsV10};

// 96: the most pairs of 16 pawns on three files; 36 are the most seen.
inline constexpr FeatureSet kSfnnV16{
    "SFNNv16",        kHalfKAv2Hm.num_inputs + kThreatsV16.num_inputs + kNumPawnPairs, 32 + 128 + 96,
    kHalfKAv2HmParts, &kThreatsV16,
    true};

}  // namespace sparsepool::chess
