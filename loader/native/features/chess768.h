#pragma once

#include "features/pieces.h"

// chess768: piece and square as either side sees them, and nothing else. Small, for quick experiments.
namespace sparsepool::features {

struct Chess768 {
    static constexpr std::string_view kName = "chess768";
    static constexpr std::uint32_t kNumInputs = 12 * 64;  // own pawn, enemy pawn, own knight, ... enemy king
    static constexpr std::uint32_t kMaxActive = 32;

    template <class Number>
    static std::uint32_t write(const Pieces& pieces, unsigned perspective, Number* out) {
        const std::uint32_t flip = perspective != 0 ? 56U : 0U;
        for (std::uint32_t i = 0; i < kMaxPieces; ++i) {
            const std::uint32_t plane = pieces.code[i] ^ perspective;
            out[i] = static_cast<Number>(plane * 64 + (pieces.square[i] ^ flip));
        }
        return pieces.count;
    }
};

extern const FeatureSetOf<Chess768> kChess768;

}  // namespace sparsepool::features
