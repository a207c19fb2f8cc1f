#pragma once

#include "chess/native/features/halfka_v2_hm.h"

// HalfKAv2_hm^: HalfKAv2_hm and, for each piece, a virtual input that knows no king bucket. What is learnt
// for a piece under one king then helps under all; on export the virtual rows are added to the real ones.
namespace sparsepool::chess {

struct VirtualHalfKAv2Hm {
    static constexpr std::uint32_t kBuckets = 1;
    static constexpr std::uint32_t kPlanes = 12;  // own king 10 and enemy king 11 are apart

    static constexpr std::uint32_t bucket(std::uint32_t, std::uint32_t) { return 0; }
    static constexpr std::uint32_t flip(std::uint32_t colour, std::uint32_t king) {
        return HalfKAv2Hm::flip(colour, king);
    }
};

inline constexpr Part kHalfKAv2HmFactorisedParts[] = {
    make_part<HalfKAv2Hm>(0),
    make_part<VirtualHalfKAv2Hm>(kHalfKAv2Hm.num_inputs),
};
inline constexpr FeatureSet kHalfKAv2HmFactorised{"HalfKAv2_hm^", kHalfKAv2Hm.num_inputs + 768, 64,
                                                  kHalfKAv2HmFactorisedParts};

}  // namespace sparsepool::chess
