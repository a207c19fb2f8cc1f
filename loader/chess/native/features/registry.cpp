#include "chess/native/features/chess768.h"
#include "chess/native/features/factorised.h"
#include "chess/native/features/feature_set.h"
#include "chess/native/features/halfka_v2_hm.h"
#include "chess/native/features/sfnn.h"

namespace sparsepool::chess {
namespace {

constexpr char kFactorised = '^';  // behind the name of a set with virtual inputs

struct NamedSet {
    std::string_view name;
    FeatureSet (*make)(const FeatureSettings&);
};

// Every feature set by name; a new one is a file of its own and a line here.
constexpr NamedSet kSets[] = {
    {"HalfKAv2_hm", &make_halfka_v2_hm},
    {"SFNNv10", &make_sfnn_v10},
    {"SFNNv16", &make_sfnn_v16},
    {"chess768", &make_chess768},
};

std::string unknown(std::string_view name) {
    std::string message = "features: '" + std::string(name) + "' is none of";
    const char* separator = " ";
    for (const std::string& known : feature_set_names()) {
        message += separator + known;
        separator = ", ";
    }
    return message;
}

}  // namespace

std::shared_ptr<const FeatureSet> make_feature_set(std::string_view name, const FeatureSettings& settings) {
    const bool is_factorised = name.ends_with(kFactorised);
    const std::string_view real = name.substr(0, name.size() - (is_factorised ? 1 : 0));
    for (const NamedSet& entry : kSets) {
        if (entry.name != real) continue;
        const FeatureSet set = entry.make(settings);
        if (!is_factorised) return std::make_shared<const FeatureSet>(set);
        auto with_virtual = std::make_shared<const FeatureSet>(factorised(set));
        require(with_virtual->parts.size() > set.parts.size(), "king_buckets: ", name,
                " needs two or more different ones");
        return with_virtual;
    }
    throw std::invalid_argument(unknown(name));
}

std::vector<std::string> feature_set_names() {
    std::vector<std::string> names;
    for (const NamedSet& entry : kSets) {
        names.emplace_back(entry.name);
        names.push_back(names.back() + kFactorised);
    }
    return names;
}

}  // namespace sparsepool::chess
