#pragma once

#include "chess/native/features/feature_set.h"

// chess768: piece and square as either side sees them, and nothing else. Small, for quick experiments.
namespace sparsepool::chess {

struct Chess768 {
    static constexpr std::uint32_t kBuckets = 1;
    static constexpr std::uint32_t kPlanes = 12;  // own pawn, enemy pawn, own knight, ... enemy king

    static constexpr std::uint32_t bucket(std::uint32_t, std::uint32_t) { return 0; }
    static constexpr std::uint32_t flip(std::uint32_t colour, std::uint32_t) { return colour != 0 ? 56 : 0; }
};

inline constexpr Part kChess768Parts[] = {make_part<Chess768>(0)};
inline constexpr FeatureSet kChess768{"chess768", 768, 32, kChess768Parts};

}  // namespace sparsepool::chess
