#pragma once

#include "chess/native/features/feature_set.h"
#include "common/check.h"

// HalfKAv2_hm, the inputs of Stockfish 15.1: (own king's bucket, piece, square), mirrored so that the own king
// is always on files e to h; both kings share a plane.
namespace sparsepool::chess {

struct HalfKAv2Hm {
    static constexpr std::uint32_t kPlanes = 11;  // own pawn, enemy pawn, own knight, ... enemy queen, kings

    [[nodiscard]] static constexpr std::uint32_t buckets() { return 32; }

    [[nodiscard]] static constexpr std::uint32_t plane(std::uint32_t piece) {
        return piece < kPlanes ? piece : kPlanes - 1;
    }

    // Every square is used xor this: black sees the board upside down, a king on a to d sees it mirrored.
    [[nodiscard]] static constexpr std::uint32_t flip(std::uint32_t colour, std::uint32_t king) {
        return (colour != 0 ? 56U : 0U) ^ ((king & 7) < 4 ? 7U : 0U);
    }

    // 0 (h8) ... 31 (e1) of the oriented king square.
    [[nodiscard]] static constexpr std::uint32_t bucket(std::uint32_t colour, std::uint32_t king) {
        const std::uint32_t oriented = king ^ flip(colour, king);
        return (7 - oriented / 8) * 4 + (7 - oriented % 8);
    }
};

[[nodiscard]] inline FeatureSet make_halfka_v2_hm(const FeatureSettings& settings) {
    require(settings.king_buckets.empty(), "king_buckets: HalfKAv2_hm has its own");
    return build_set({build_piece_inputs(HalfKAv2Hm{}, 0)});
}

}  // namespace sparsepool::chess
