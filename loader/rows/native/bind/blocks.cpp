// A chunk's rows as arrays, for those who read them in Python.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "bind/files.h"
#include "rows/native/bind/bind.h"
#include "rows/native/reader.h"
#include "rows/native/record.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::rows {
namespace {

template <class Item>
using Array = nb::ndarray<nb::numpy, Item, nb::ndim<1>, nb::c_contig>;

template <class Item>
Array<Item> array_of(std::vector<Item>&& items) {
    auto* const memory = new std::vector<Item>(std::move(items));  // the array owns it
    const nb::capsule owner(memory, [](void* vector) noexcept { delete static_cast<std::vector<Item>*>(vector); });
    return Array<Item>(memory->data(), {memory->size()}, owner);
}

using FieldArrays = std::tuple<Array<std::int64_t>, Array<std::uint32_t>, std::optional<Array<float>>>;
using FaultTuple = std::tuple<nb::str, std::string, std::optional<std::uint64_t>, std::string>;
using Rows = std::tuple<std::vector<Array<float>>, std::optional<Array<std::int64_t>>, std::vector<FieldArrays>,
                        std::optional<FaultTuple>>;

FaultTuple tuple_of(const stream::SourceFault& fault) {
    using enum stream::SourceFault::Kind;
    const char* kind = "unreadable";
    if (fault.kind == kDamaged) kind = "damaged";
    if (fault.kind == kChanged) kind = "changed";
    return {name_of(fault.file), fault.reason, fault.offset, kind};
}

FieldArrays field_arrays(const stream::RecordSpan& records, const RowShape& shape, std::size_t field) {
    const bool has_values = shape.fields[field].values;
    std::vector<std::int64_t> offsets{0};
    std::vector<std::uint32_t> features;
    std::vector<float> values;
    for (std::size_t row = 0; row < records.size(); ++row) {
        const RowView view(shape, records[row]);
        const std::uint32_t* word = view.words(field);
        for (std::uint32_t i = 0; i < view.count(field); ++i) {
            features.push_back(*word++);
            if (!has_values) continue;
            float value = 0;
            std::memcpy(&value, word++, sizeof value);
            values.push_back(value);
        }
        offsets.push_back(static_cast<std::int64_t>(features.size()));
    }
    std::optional<Array<float>> value_array;
    if (has_values) value_array = array_of(std::move(values));
    return {array_of(std::move(offsets)), array_of(std::move(features)), std::move(value_array)};
}

Rows read_rows(const RowReader& reader, std::size_t chunk, const RowShape& shape) {
    if (chunk >= reader.num_chunks()) throw nb::index_error("the reader has not so many chunks");
    stream::RecordBuffer buffer(0);
    RowReader::Read read;
    {
        const nb::gil_scoped_release release;
        read = reader.read(chunk, shape, buffer);
    }
    const stream::RecordSpan records = buffer.records();
    Rows rows;
    for (std::size_t i = 0; i < shape.dense.size(); ++i) {
        std::vector<float> numbers;
        for (std::size_t row = 0; row < records.size(); ++row) numbers.push_back(RowView(shape, records[row]).dense(i));
        std::get<0>(rows).push_back(array_of(std::move(numbers)));
    }
    if (shape.qid) {
        std::vector<std::int64_t> numbers;
        for (std::size_t row = 0; row < records.size(); ++row) numbers.push_back(RowView(shape, records[row]).qid());
        std::get<1>(rows) = array_of(std::move(numbers));
    }
    for (std::size_t field = 0; field < shape.fields.size(); ++field) {
        std::get<2>(rows).push_back(field_arrays(records, shape, field));
    }
    if (read.fault) std::get<3>(rows) = tuple_of(*read.fault);
    return rows;
}

std::uint64_t count_rows(const RowReader& reader, std::size_t chunk, const RowShape& shape) {
    if (chunk >= reader.num_chunks()) throw nb::index_error("the reader has not so many chunks");
    const nb::gil_scoped_release release;
    stream::RecordBuffer buffer(0);
    return reader.read(chunk, shape, buffer).rows;
}

}  // namespace

void bind_blocks(nb::module_& module) {
    module.def(
        "read_rows", &read_rows, "reader"_a, "chunk"_a, "shape"_a,
        "A chunk's rows up to any fault: dense numbers, qid or None, (offsets, features, values or None) of each\n"
        "field, and (file, reason, offset or None, \"damaged\", \"changed\" or \"unreadable\") or None.");
    module.def("count_rows", &count_rows, "reader"_a, "chunk"_a, "shape"_a, "Rows of a chunk, up to any fault.");
}

}  // namespace sparsepool::rows
