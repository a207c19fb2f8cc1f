#include <array>

#include "chess/native/features/chess768.h"
#include "chess/native/features/feature_set.h"
#include "chess/native/features/halfka_v2_hm.h"
#include "chess/native/features/halfka_v2_hm_factorised.h"
#include "chess/native/features/sfnn.h"

namespace sparsepool::chess {
namespace {

// Every feature set by name; a new one is a file of its own and a line here.
const std::array<const FeatureSet*, 5> kSets = {&kHalfKAv2Hm, &kHalfKAv2HmFactorised, &kSfnnV10, &kSfnnV16,
                                                &kChess768};

}  // namespace

const FeatureSet* find_feature_set(std::string_view name) {
    for (const FeatureSet* set : kSets) {
        if (set->name == name) return set;
    }
    return nullptr;
}

std::vector<std::string_view> feature_set_names() {
    std::vector<std::string_view> names;
    for (const FeatureSet* set : kSets) names.push_back(set->name);
    return names;
}

}  // namespace sparsepool::chess
