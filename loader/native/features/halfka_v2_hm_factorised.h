#pragma once

#include "features/halfka_v2_hm.h"

// HalfKAv2_hm^: HalfKAv2_hm and, for each piece, a virtual input that knows no king bucket. What is learnt
// for a piece under one king then helps under all; on export the virtual rows are added to the real ones.
namespace sparsepool::features {

struct HalfKAv2HmFactorised {
    static constexpr std::string_view kName = "HalfKAv2_hm^";
    static constexpr std::uint32_t kVirtualPlanes = 12;  // own king 10 and enemy king 11 are apart
    static constexpr std::uint32_t kNumInputs = HalfKAv2Hm::kNumInputs + kVirtualPlanes * 64;
    static constexpr std::uint32_t kMaxActive = 64;

    template <class Number>
    static std::uint32_t write(const Pieces& pieces, unsigned perspective, Number* out) {
        const std::uint32_t real = HalfKAv2Hm::write(pieces, perspective, out);
        const std::uint32_t flip = HalfKAv2Hm::flip_of(pieces.king[perspective], perspective);
        for (std::uint32_t i = 0; i < kMaxPieces; ++i) {
            const std::uint32_t plane = pieces.code[i] ^ perspective;
            out[real + i] = static_cast<Number>(HalfKAv2Hm::kNumInputs + plane * 64 + (pieces.square[i] ^ flip));
        }
        return real + pieces.count;
    }
};

extern const FeatureSetOf<HalfKAv2HmFactorised> kHalfKAv2HmFactorised;

}  // namespace sparsepool::features
