#include <algorithm>
#include <utility>

#include "chess/native/features/chess768.h"
#include "chess/native/features/factorised.h"
#include "chess/native/features/feature_set.h"
#include "chess/native/features/halfka_v2_hm.h"
#include "chess/native/features/relations.h"

namespace sparsepool::chess {
namespace {

constexpr char kFactorised = '^';          // behind the name of pieces with virtual inputs
constexpr std::string_view kPlus = " + ";  // between the terms of a sum

struct PieceSet {
    std::string_view name;
    FeatureSet (*make)(const FeatureSettings&);
};

// Every set of pieces by name; a new one is a file of its own and a line here.
constexpr PieceSet kPieceSets[] = {
    {"HalfKAv2_hm", &make_halfka_v2_hm},
    {"chess704", &make_chess768<Chess704>},
    {"chess768", &make_chess768<Chess768>},
};

// Short forms of sums, as Stockfish's networks are called.
constexpr std::pair<std::string_view, std::string_view> kShortForms[] = {
    {"SFNNv10", "HalfKAv2_hm + threats_v10"},
    {"SFNNv16", "HalfKAv2_hm + threats + pawn_pairs"},
};

std::string unknown(std::string_view name) {
    std::string message = "features: '" + std::string(name) + "' is none of";
    const char* separator = " ";
    for (const std::string& known : feature_set_names()) {
        message += separator + known;
        separator = ", ";
    }
    return message +
           "; behind the pieces may stand ' + threats', ' + threats_v11' or ' + threats_v10', then ' + pawn_pairs'";
}

// Cuts the first term off.
std::string_view take_term(std::string_view& terms) {
    const std::size_t end = std::min(terms.find(kPlus), terms.size());
    const std::string_view first = terms.substr(0, end);
    terms.remove_prefix(std::min(end + kPlus.size(), terms.size()));
    return first;
}

FeatureSet add_relations(FeatureSet set, std::string_view terms, std::string_view name) {
    while (!terms.empty()) {
        const std::string_view term = take_term(terms);
        if (term == "threats" && !set.has_relations()) {
            set = add_threats(std::move(set), kThreatsV16);
        } else if (term == "threats_v11" && !set.has_relations()) {
            set = add_threats(std::move(set), kThreatsV11);
        } else if (term == "threats_v10" && !set.has_relations()) {
            set = add_threats(std::move(set), kThreatsV10);
        } else if (term == "pawn_pairs" && set.threats != nullptr && !set.pawn_pairs) {
            set = add_pawn_pairs(std::move(set));
        } else {
            throw std::invalid_argument(unknown(name));
        }
    }
    require(!set.has_relations() || set.wide(), "features: ", name, " has ", set.num_inputs,
            " inputs; with relations more than ", 1U << 16, " are needed: set king_buckets");
    return set;
}

}  // namespace

std::shared_ptr<const FeatureSet> make_feature_set(std::string_view name, const FeatureSettings& settings) {
    bool is_factorised = name.ends_with(kFactorised) && name.find(kPlus) == std::string_view::npos;
    std::string_view terms = name.substr(0, name.size() - (is_factorised ? 1 : 0));
    for (const auto& [short_form, sum] : kShortForms) {
        if (terms == short_form) terms = sum;
    }
    std::string_view pieces = take_term(terms);
    if (pieces.ends_with(kFactorised)) {
        is_factorised = true;
        pieces.remove_suffix(1);
    }
    for (const PieceSet& entry : kPieceSets) {
        if (entry.name != pieces) continue;
        const FeatureSet set = add_relations(entry.make(settings), terms, name);
        if (!is_factorised) return std::make_shared<const FeatureSet>(set);
        auto with_virtual = std::make_shared<const FeatureSet>(add_virtual_inputs(set));
        require(with_virtual->parts.size() > set.parts.size(), "king_buckets: ", name,
                " needs two or more different ones");
        return with_virtual;
    }
    throw std::invalid_argument(unknown(name));
}

std::vector<std::string> feature_set_names() {
    std::vector<std::string> names;
    for (const auto& entry : kPieceSets) names.emplace_back(entry.name);
    for (const auto& entry : kShortForms) names.emplace_back(entry.first);
    std::ranges::sort(names);
    for (std::size_t i = names.size(); i-- > 0;)
        names.insert(names.begin() + std::ptrdiff_t(i) + 1, names[i] + kFactorised);
    return names;
}

}  // namespace sparsepool::chess
