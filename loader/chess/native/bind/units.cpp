#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bind/files.h"
#include "chess/native/bind/bind.h"
#include "chess/native/bind/unit_block.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::chess {
namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Offsets = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class Number, class Container>
nb::object as_array(Container values) {
    auto kept = std::make_unique<Container>(std::move(values));
    auto* data = reinterpret_cast<Number*>(kept->data());
    const std::size_t size = kept->size();
    const nb::capsule owner(kept.release(), [](void* old) noexcept { delete static_cast<Container*>(old); });
    return nb::cast(nb::ndarray<nb::numpy, Number, nb::ndim<1>, nb::c_contig>(data, {size}, owner));
}

std::string_view view(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

std::span<const std::uint64_t> span(const Offsets& offsets) { return {offsets.data(), offsets.size()}; }

nb::object units_of_file(const EntryFile& file, std::size_t chunk) {
    if (chunk >= file.num_pieces()) throw nb::index_error("the file has not so many chunks");
    UnitBlock block;
    {
        const nb::gil_scoped_release release;
        block = read_units(file, chunk);
    }
    return unit_tuple(std::move(block));
}

nb::object units_of_bytes(const Codec& codec, const Bytes& bytes) {
    UnitBlock block;
    {
        const nb::gil_scoped_release release;
        block = cut_units(codec, view(bytes));
    }
    return unit_tuple(std::move(block));
}

nb::object gather_units(const Bytes& bytes, const Offsets& begins, const Offsets& ends, const Offsets& order) {
    std::string out;
    {
        const nb::gil_scoped_release release;
        if (begins.size() != ends.size()) throw nb::value_error("begins and ends differ in number");
        for (const std::uint64_t unit : span(order)) {
            const bool within =
                unit < ends.size() && begins.data()[unit] <= ends.data()[unit] && ends.data()[unit] <= bytes.size();
            if (!within) throw nb::index_error("a unit that is not within the bytes");
        }
        gather(view(bytes), span(begins), span(ends), span(order), out);
    }
    return as_array<std::uint8_t>(std::move(out));
}

}  // namespace

nb::object unit_tuple(UnitBlock block) {
    nb::object fault = nb::none();
    if (block.fault) {
        constexpr const char* kKinds[] = {"damaged", "changed", "unreadable"};
        fault = nb::make_tuple(name_of(block.fault->file), block.fault->reason, block.fault->offset,
                               kKinds[static_cast<std::size_t>(block.fault->kind)]);
    }
    return nb::make_tuple(as_array<std::uint8_t>(std::move(block.bytes)),
                          as_array<std::uint64_t>(std::move(block.ends)),
                          as_array<std::uint32_t>(std::move(block.entries)), fault);
}

void bind_units(nb::module_& module) {
    module.def("read_units", &units_of_file, "file"_a, "chunk"_a,
               "The records, lines or games of a chunk, each decoded once: bytes, ends, entries, fault.");
    module.def("cut_units", &units_of_bytes, "codec"_a, "bytes"_a, "The whole ones that the bytes begin with.");
    module.def("gather_units", &gather_units, "bytes"_a, "begins"_a, "ends"_a, "order"_a,
               "Units `order`, one behind the other, uint8.");
}

}  // namespace sparsepool::chess
