#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "chess/native/batch/relations/relations.h"
#include "chess/native/bind/bind.h"
#include "chess/native/board/fen.h"
#include "chess/native/features/bags.h"
#include "chess/native/features/factorised.h"
#include "chess/native/features/feature_set.h"
#include "chess/native/features/pawn_pairs.h"
#include "chess/native/features/threats.h"
#include "chess/native/make_record.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::chess {
namespace {

using Indices = nb::ndarray<nb::numpy, std::uint32_t, nb::ndim<1>, nb::c_contig>;

using KingBuckets = std::vector<std::uint8_t>;

std::pair<std::uint32_t, std::uint32_t> describe_feature_set(std::string_view name, const KingBuckets& king_buckets) {
    const auto set = make_feature_set(name, {king_buckets});
    return {set->num_inputs, set->max_active};
}

std::pair<std::uint32_t, std::uint32_t> relation_inputs(std::string_view name, const KingBuckets& king_buckets) {
    const auto set = make_feature_set(name, {king_buckets});
    return {set->threats == nullptr ? 0 : set->threats->num_inputs, set->pawn_pairs ? kNumPawnPairs : 0};
}

Indices copy_of(const std::vector<std::uint32_t>& features, std::size_t count) {
    auto copy = std::make_unique<std::uint32_t[]>(count);
    std::copy_n(features.begin(), count, copy.get());
    const nb::capsule owner(copy.get(), [](void* data) noexcept { delete[] static_cast<std::uint32_t*>(data); });
    return Indices(copy.release(), {count}, owner);
}

Indices virtual_features(std::string_view name, const KingBuckets& king_buckets) {
    const std::vector<std::uint32_t> indices = virtual_inputs(*make_feature_set(name, {king_buckets}));
    return copy_of(indices, indices.size());
}

// Returns both bags of a position, with all relations, also where a batch would have no room for them.
std::pair<Indices, Indices> bags_of(const FeatureSet& set, const Record& record, unsigned us) {
    const PieceList pieces(record);
    const std::uint8_t views[2] = {view_of(record, us), view_of(record, us ^ 1)};
    std::vector<std::uint32_t> bags[2];
    std::uint32_t counts[2];
    for (unsigned i = 0; i < 2; ++i) {
        bags[i].resize(set.max_active + kMaxRelations);
        counts[i] = write_bag(set, pieces, views[i], bags[i].data());
    }
    if (set.has_relations()) {
        const std::uint32_t relations =
            write_relations(set, record, pieces, views, bags[0].data() + counts[0], bags[1].data() + counts[1]);
        for (std::uint32_t& count : counts) count += relations;
    }
    return {copy_of(bags[0], counts[0]), copy_of(bags[1], counts[1])};
}

std::tuple<Indices, Indices, unsigned, bool> extract_fen(std::string_view fen, std::string_view name,
                                                         const KingBuckets& king_buckets) {
    const auto set = make_feature_set(name, {king_buckets});
    Entry entry;
    const std::string fault = parse_fen(fen, entry.position);
    if (!fault.empty()) throw nb::value_error(("FEN '" + std::string(fen) + "': " + fault).c_str());
    const Record record = make_record(entry);
    const unsigned us = record.flags & kBlackToMove;
    const auto [own, opponent] = bags_of(*set, record, us);
    return {own, opponent, count_squares(record.occupied), us != 0};
}

}  // namespace

void bind_features(nb::module_& module) {
    module.def("feature_sets", &feature_set_names, "The names of all feature sets.");
    module.def("describe_feature_set", &describe_feature_set, "name"_a, "king_buckets"_a = KingBuckets(),
               "(number of inputs, most that are active in one perspective). king_buckets: of the own king's squares,\n"
               "64 or, with mirroring, 32; for sets that have none of their own. Raises ValueError.");
    module.def("relation_inputs", &relation_inputs, "name"_a, "king_buckets"_a = KingBuckets(),
               "(threats, pawn pairs): how many of the inputs behind the pieces' are which. Raises ValueError.");
    module.def("virtual_features", &virtual_features, "name"_a, "king_buckets"_a = KingBuckets(),
               "Of each input of a set that is not factorised: the input of `name`^ that is the same without king\n"
               "bucket, 2^32 - 1 if there is none. uint32 [inputs]. Raises ValueError.");
    module.def("extract_fen", &extract_fen, "fen"_a, "name"_a, "king_buckets"_a = KingBuckets(),
               "Active features of a position: (own: uint32 [n], opponent: uint32 [n], number of pieces, whether\n"
               "black is to move); own is the side to move's perspective. Raises ValueError for a malformed FEN.");
}

}  // namespace sparsepool::chess
