#include "features/halfka_v2_hm.h"

namespace sparsepool::features {

const FeatureSetOf<HalfKAv2Hm> kHalfKAv2Hm;

}  // namespace sparsepool::features
