#pragma once

#include "chess/native/features/feature_set.h"

// HalfKAv2_hm, the inputs of Stockfish 15.1: (own king's bucket, piece, square), mirrored so that the own king
// is always on files e to h; both kings share a plane.
namespace sparsepool::chess {

struct HalfKAv2Hm {
    static constexpr std::uint32_t kBuckets = 32;
    static constexpr std::uint32_t kPlanes = 11;  // own pawn, enemy pawn, own knight, ... enemy queen, kings

    // Every square is used xor this: black sees the board upside down, a king on a to d sees it mirrored.
    static constexpr std::uint32_t flip(std::uint32_t colour, std::uint32_t king) {
        return (colour != 0 ? 56U : 0U) ^ ((king & 7) < 4 ? 7U : 0U);
    }

    // 0 (h8) ... 31 (e1) of the oriented king square.
    static constexpr std::uint32_t bucket(std::uint32_t colour, std::uint32_t king) {
        const std::uint32_t oriented = king ^ flip(colour, king);
        return (7 - oriented / 8) * 4 + (7 - oriented % 8);
    }
};

inline constexpr Part kHalfKAv2HmParts[] = {make_part<HalfKAv2Hm>(0)};
inline constexpr FeatureSet kHalfKAv2Hm{"HalfKAv2_hm", 32 * 11 * 64, 32, kHalfKAv2HmParts};

}  // namespace sparsepool::chess
