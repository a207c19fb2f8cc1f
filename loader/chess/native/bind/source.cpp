#include "chess/native/source.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "chess/native/bind/bind.h"
#include "chess/native/relabelled_reader.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::chess {
namespace {

using RegionTable = std::map<std::string, std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>>;

void make_source(PositionSource* source, std::vector<std::shared_ptr<PositionReader>> readers,
                 const std::string& features, const std::vector<std::uint8_t>& king_buckets,
                 const std::vector<std::uint8_t>& output_buckets, std::uint64_t batch_size, std::uint64_t slot_bytes,
                 const RegionTable& table, const FilterSettings& filters, std::uint64_t seed) {
    const std::shared_ptr<const FeatureSet> set = make_feature_set(features, {king_buckets});
    batch::Regions regions;
    for (const auto& [name, region] : table) {
        regions[name] = {std::get<0>(region), std::get<1>(region), std::get<2>(region)};
    }
    const Layout layout = read_layout(regions, batch_size, slot_bytes, *set, make_output_buckets(output_buckets));
    new (source) PositionSource(std::move(readers), set, layout, filters, seed);
}

}  // namespace

void bind(nb::module_& module) {
    nb::class_<PositionReader>(module, "PositionReader", "Files of one format, in chunks of positions.")
        .def_prop_ro("num_chunks", &PositionReader::num_chunks)
        .def_prop_ro("in_file_order", &PositionReader::in_file_order, "chunks are best read one after the other")
        .def_prop_ro("name", &PositionReader::name, "of the files, for messages");
    nb::class_<LabelChange>(module, "LabelChange", "How scores and results differ from what their format means.")
        .def(nb::init<double, bool, bool>(), "scale"_a = 1.0, "flips_score"_a = false, "flips_result"_a = false,
             "flips_score, flips_result: those of positions with Black to move have the other sign.");
    nb::class_<RelabelledReader, PositionReader>(module, "RelabelledReader", "Another reader's files, labels changed.")
        .def(nb::init<std::shared_ptr<PositionReader>, LabelChange>(), "reader"_a, "change"_a);
    module.def("scaled_score", &scaled_score, "score"_a, "scale"_a,
               "Rounded to nearest even, at most 32000 in size; 32002, no score, stays what it is.");
    bind_filters(module);
    nb::class_<PositionSource, stream::Source>(module, "PositionSource", "Positions of any formats, filtered.")
        .def("__init__", &make_source, "readers"_a, "features"_a, "king_buckets"_a, "output_buckets"_a, "batch_size"_a,
             "slot_bytes"_a, "regions"_a, "filters"_a, "seed"_a,
             "output_buckets: of each number of pieces, 0 to 32. regions: name -> (offset, count, item size), of\n"
             "loader.stream.schema.");
    bind_features(module);
    bind_records(module);
    bind_entry_files(module);
    bind_table(module);
    bind_census(module);
    bind_units(module);
    bind_keys(module);
    bind_python_reader(module);
}

}  // namespace sparsepool::chess
