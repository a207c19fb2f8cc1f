#include "rows/native/source.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
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

#include "common/check.h"
#include "rows/native/bind/bind.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::rows {
namespace {

using RegionTable = std::map<std::string, std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>>;

void make_source(RowSource* source, std::vector<std::shared_ptr<RowReader>> readers, const RowShape& shape,
                 std::uint64_t batch_size, std::uint64_t slot_bytes, const RegionTable& table) {
    batch::Regions regions;
    for (const auto& [name, region] : table) {
        regions[name] = {std::get<0>(region), std::get<1>(region), std::get<2>(region)};
    }
    const Layout layout = read_layout(regions, batch_size, slot_bytes, shape);
    new (source) RowSource(std::move(readers), shape, layout);
}

}  // namespace

void bind(nb::module_& module) {
    nb::enum_<LabelKind>(module, "LabelKind", "Which labels rows have; see loader.rows.settings.")
        .value("REAL", LabelKind::kReal)
        .value("BINARY", LabelKind::kBinary)
        .value("CLASS", LabelKind::kClass)
        .value("NONE", LabelKind::kNone);
    nb::class_<Field>(module, "RowField", "Features begin .. end - 1 of all.")
        .def(
            "__init__",
            [](Field* field, std::string name, std::uint64_t begin, std::uint64_t end, bool values,
               std::uint32_t max_active) { new (field) Field{std::move(name), begin, end, values, max_active}; },
            "name"_a, "begin"_a, "end"_a, "values"_a, "max_active"_a)
        .def_ro("name", &Field::name)
        .def_ro("begin", &Field::begin)
        .def_ro("end", &Field::end)
        .def_ro("values", &Field::values)
        .def_ro("max_active", &Field::max_active);
    nb::class_<Table>(module, "RowTable", "A field of batches: fields begin .. end - 1 of rows, a bag each.")
        .def(
            "__init__",
            [](Table* table, std::string name, std::size_t begin, std::size_t end) {
                new (table) Table{std::move(name), begin, end};
            },
            "name"_a, "begin"_a, "end"_a);
    nb::class_<RowShape>(module, "RowShape", "What a row has; see loader.rows.fields.")
        .def(nb::init<>())
        .def_rw("label", &RowShape::label)
        .def_rw("num_classes", &RowShape::num_classes)
        .def_rw("labels", &RowShape::labels, "numbers of the labels by their texts in files; empty: these are numbers")
        .def_rw("dense", &RowShape::dense, "names of the float32 numbers; the label first, then the weight if any")
        .def_rw("weight", &RowShape::weight)
        .def_rw("qid", &RowShape::qid)
        .def_rw("missing_qid", &RowShape::missing_qid,
                "of a line of svmlight text that has none; None: it must have one")
        .def_rw("fields", &RowShape::fields, "in the order of their numbers")
        .def_rw("tables", &RowShape::tables, "in the order of the schema; readers need none")
        .def_rw("first_number", &RowShape::first_number);
    nb::class_<RowReader>(module, "RowReader", "Files of one format, in chunks of rows.")
        .def_prop_ro("num_chunks", &RowReader::num_chunks)
        .def_prop_ro("name", &RowReader::name, "of the files, for messages")
        .def_prop_ro("in_file_order", &RowReader::in_file_order, "its chunks are not permuted");
    nb::class_<RowSource, stream::Source>(module, "RowSource", "Rows of any formats.")
        .def("__init__", &make_source, "readers"_a, "shape"_a, "batch_size"_a, "slot_bytes"_a, "regions"_a,
             "regions: name -> (offset, count, item size), of loader.schema.");
    bind_blocks(module);
    bind_feature_hash(module);
    bind_line_files(module);
    bind_python_reader(module);
}

}  // namespace sparsepool::rows
