#include <algorithm>
#include <iterator>
#include <span>
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

std::string describe_unknown(std::string_view name) {
    std::string message = "features: '" + std::string(name) + "' is none of";
    const char* separator = " ";
    for (const std::string& set_name : feature_set_names()) {
        message += separator + set_name;
        separator = ", ";
    }
    return message +
           "; behind the pieces may stand ' + threats', ' + threats_v11' or ' + threats_v10', then ' + pawn_pairs'";
}

// Splits a sum of features: "HalfKAv2_hm + threats".
std::vector<std::string_view> split_terms(std::string_view sum) {
    std::vector<std::string_view> terms;
    std::size_t begin = 0;
    while (begin < sum.size()) {
        const std::size_t end = std::min(sum.find(kPlus, begin), sum.size());
        terms.push_back(sum.substr(begin, end - begin));
        begin = end + kPlus.size();
    }
    return terms;
}

// Returns the threats of a term; null if the term is not one of threats.
const Threats* find_threats(std::string_view term) {
    if (term == "threats") return &kThreatsV16;
    if (term == "threats_v11") return &kThreatsV11;
    if (term == "threats_v10") return &kThreatsV10;
    return nullptr;
}

// Adds the relations of the terms behind the pieces: threats, then pawn pairs.
FeatureSet add_relations(FeatureSet set, std::span<const std::string_view> terms, std::string_view name) {
    for (const std::string_view term : terms) {
        const Threats* threats = find_threats(term);
        if (threats != nullptr && !set.has_relations()) {
            set = add_threats(std::move(set), *threats);
        } else if (term == "pawn_pairs" && set.threats != nullptr && !set.pawn_pairs) {
            set = add_pawn_pairs(std::move(set));
        } else {
            throw std::invalid_argument(describe_unknown(name));
        }
    }
    require(!set.has_relations() || set.has_32bit_indices(), "features: ", name, " has ", set.num_inputs,
            " inputs; with relations more than ", 1U << 16, " are needed: set king_buckets");
    return set;
}

std::string_view expand_short_form(std::string_view name) {
    for (const auto& [short_form, sum] : kShortForms) {
        if (name == short_form) return sum;
    }
    return name;
}

}  // namespace

std::shared_ptr<const FeatureSet> make_feature_set(std::string_view name, const FeatureSettings& settings) {
    // The sign of virtual inputs stands behind the pieces, or behind a name without terms, which may be a short form.
    const bool has_terms = name.find(kPlus) != std::string_view::npos;
    bool is_factorised = name.ends_with(kFactorised) && !has_terms;
    const std::string_view sum = expand_short_form(is_factorised ? name.substr(0, name.size() - 1) : name);
    const std::vector<std::string_view> terms = split_terms(sum);
    std::string_view pieces = terms.empty() ? std::string_view() : terms.front();
    if (pieces.ends_with(kFactorised)) {
        is_factorised = true;
        pieces.remove_suffix(1);
    }
    const auto* const piece_set = std::ranges::find(kPieceSets, pieces, &PieceSet::name);
    if (piece_set == std::end(kPieceSets)) throw std::invalid_argument(describe_unknown(name));
    const auto relations = std::span(terms).subspan(1);
    const FeatureSet set = add_relations(piece_set->make(settings), relations, name);
    if (!is_factorised) return std::make_shared<const FeatureSet>(set);
    auto with_virtual = std::make_shared<const FeatureSet>(add_virtual_inputs(set));
    require(with_virtual->piece_inputs.size() > set.piece_inputs.size(), "king_buckets: ", name,
            " needs two or more different ones");
    return with_virtual;
}

// Returns all names in order, each also with virtual inputs.
std::vector<std::string> feature_set_names() {
    std::vector<std::string> names;
    for (const PieceSet& set : kPieceSets) names.emplace_back(set.name);
    for (const auto& [short_form, sum] : kShortForms) names.emplace_back(short_form);
    std::ranges::sort(names);
    std::vector<std::string> with_factorised;
    for (const std::string& name : names) {
        with_factorised.push_back(name);
        with_factorised.push_back(name + kFactorised);
    }
    return with_factorised;
}

}  // namespace sparsepool::chess
