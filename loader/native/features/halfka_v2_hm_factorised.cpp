#include "features/halfka_v2_hm_factorised.h"

namespace sparsepool::features {

const FeatureSetOf<HalfKAv2HmFactorised> kHalfKAv2HmFactorised;

}  // namespace sparsepool::features
