#pragma once

#include <algorithm>

#include "features/pieces.h"

// HalfKAv2_hm, the inputs of Stockfish 15.1: (own king's bucket, piece, square), mirrored so that the own king
// is always on files e to h; both kings share a plane.
namespace sparsepool::features {

struct HalfKAv2Hm {
    static constexpr std::string_view kName = "HalfKAv2_hm";
    static constexpr std::uint32_t kPlanes = 11;  // own pawn, enemy pawn, own knight, ... enemy queen, kings
    static constexpr std::uint32_t kKingPlane = 10;
    static constexpr std::uint32_t kNumInputs = 32 * kPlanes * 64;
    static constexpr std::uint32_t kMaxActive = 32;

    // Every square is used xor this: black sees the board upside down, a king on a to d sees it mirrored.
    [[nodiscard]] static constexpr std::uint32_t flip_of(std::uint32_t king, unsigned perspective) {
        return (perspective != 0 ? 56U : 0U) ^ ((king & 7) < 4 ? 7U : 0U);
    }

    // 0 (h8) ... 31 (e1) of the oriented king square.
    [[nodiscard]] static constexpr std::uint32_t bucket_of(std::uint32_t oriented) {
        return (7 - oriented / 8) * 4 + (7 - oriented % 8);
    }

    template <class Number>
    static std::uint32_t write(const Pieces& pieces, unsigned perspective, Number* out) {
        const std::uint32_t king = pieces.king[perspective];
        const std::uint32_t flip = flip_of(king, perspective);
        const std::uint32_t base = bucket_of(king ^ flip) * kPlanes * 64;
        for (std::uint32_t i = 0; i < kMaxPieces; ++i) {
            // Colour becomes own (even) or enemy (odd); both kings are code 10.
            const auto seen = static_cast<std::uint8_t>(pieces.code[i] ^ perspective);
            const std::uint8_t plane = std::min(seen, static_cast<std::uint8_t>(kKingPlane));
            const auto square = static_cast<std::uint8_t>(pieces.square[i] ^ flip);
            out[i] = static_cast<Number>(base + plane * 64U + square);
        }
        return pieces.count;
    }
};

extern const FeatureSetOf<HalfKAv2Hm> kHalfKAv2Hm;

}  // namespace sparsepool::features
