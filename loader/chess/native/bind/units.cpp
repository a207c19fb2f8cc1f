#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bind/faults.h"
#include "bind/files.h"
#include "chess/native/bind/arrays.h"
#include "chess/native/bind/bind.h"
#include "chess/native/bind/unit_block.h"
#include "chess/native/units/drawn_units.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::chess {
namespace {

using Bytes = UnitBytes;
using Offsets = UnitPlaces;
using Counts = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using UnitsWithDraws = std::tuple<Bytes, Offsets, Counts, Offsets>;

std::string_view view(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

std::span<const std::uint64_t> span(const Offsets& offsets) { return {offsets.data(), offsets.size()}; }

// Returns (units, skipped data by kind, whether units have lost entries, entries without a score).
nb::object units_of_file(const EntryFile& file, std::size_t chunk) {
    if (chunk >= file.num_pieces()) throw nb::index_error("the file has not so many chunks");
    UnitBlock block;
    {
        const nb::gil_scoped_release release;
        block = read_units(file, chunk);
    }
    std::vector<SkippedTuple> skipped;
    for (const stream::SkippedData& kind : block.skipped) skipped.push_back(sparsepool::as_tuple(kind));
    const bool cuts_units = block.cuts_units;
    const std::vector<CountedReason> unscored = std::move(block.unscored);
    return nb::make_tuple(unit_tuple(std::move(block)), skipped, cuts_units, unscored);
}

nb::object units_of_bytes(const Codec& codec, const Bytes& bytes) {
    UnitBlock block;
    {
        const nb::gil_scoped_release release;
        block = cut_units(codec, view(bytes));
    }
    return unit_tuple(std::move(block));
}

NewArray<std::uint8_t> gather_units(const Bytes& bytes, const Offsets& begins, const Offsets& ends,
                                    const Offsets& order) {
    std::string out;
    {
        const nb::gil_scoped_release release;
        if (begins.size() != ends.size()) throw nb::value_error("begins and ends differ in number");
        for (const std::uint64_t unit : span(order)) {
            const bool is_within =
                unit < ends.size() && begins.data()[unit] <= ends.data()[unit] && ends.data()[unit] <= bytes.size();
            if (!is_within) throw nb::index_error("a unit that is not within the bytes");
        }
        append_units(view(bytes), span(begins), span(ends), span(order), out);
    }
    return to_array<std::uint8_t>(std::move(out));
}

nb::object bucket_tuple(Buckets buckets) {
    const std::vector<std::uint64_t> begin(buckets.begin.begin(), buckets.begin.end());
    return nb::make_tuple(to_array<std::uint8_t>(std::move(buckets.units)), to_array<std::uint64_t>(begin));
}

void check_shift(unsigned shift) {
    if (shift > 64 - kBucketBits) throw nb::value_error("a draw has no such bits");
}

nb::object units_into_buckets(const std::vector<UnitsWithDraws>& blocks, unsigned shift) {
    check_shift(shift);
    std::vector<UnitsAndDraws> views;
    for (const auto& [bytes, ends, entries, draws] : blocks) {
        if (entries.size() != ends.size() || draws.size() != ends.size()) {
            throw nb::value_error("ends, entries and draws differ in number");
        }
        views.push_back({view(bytes), span(ends), {entries.data(), entries.size()}, span(draws)});
    }
    Buckets buckets;
    {
        const nb::gil_scoped_release release;
        buckets = partition_into_buckets(views, shift);
    }
    return bucket_tuple(std::move(buckets));
}

nb::object drawn_into_buckets(const Bytes& drawn, unsigned shift) {
    check_shift(shift);
    Buckets buckets;
    {
        const nb::gil_scoped_release release;
        buckets = partition_into_buckets(view(drawn), shift);
    }
    return bucket_tuple(std::move(buckets));
}

NewArray<std::uint64_t> places_by_draw(const Bytes& drawn) {
    std::vector<std::uint64_t> places;
    {
        const nb::gil_scoped_release release;
        places = sort_by_draw(view(drawn));
    }
    return to_array<std::uint64_t>(std::move(places));
}

nb::object drawn_units_at(const Bytes& drawn, const Offsets& places) {
    UnitBlock block;
    {
        const nb::gil_scoped_release release;
        block = units_at(view(drawn), span(places));
    }
    return unit_tuple(std::move(block));
}

NewItemBytes<Record> first_entries_of(const Codec& codec, const UnitBytes& bytes, const UnitPlaces& begins) {
    return first_records(bytes, begins, 0, [&](auto places) { return first_entries(codec, view(bytes), places); });
}

}  // namespace

// Returns (bytes, ends, entries, fault or None).
nb::object unit_tuple(UnitBlock block) {
    nb::object fault = nb::none();
    if (block.fault) {
        constexpr const char* kKinds[] = {"damaged", "changed", "unreadable"};
        fault = nb::make_tuple(name_of(block.fault->file), block.fault->reason, block.fault->offset,
                               kKinds[static_cast<std::size_t>(block.fault->kind)]);
    }
    return nb::make_tuple(to_array<std::uint8_t>(std::move(block.bytes)),
                          to_array<std::uint64_t>(std::move(block.ends)),
                          to_array<std::uint32_t>(std::move(block.entries)), fault);
}

void bind_units(nb::module_& module) {
    module.def(
        "read_units", &units_of_file, "file"_a, "chunk"_a,
        "The records, lines or games of a chunk, each decoded once: (bytes, ends, entries, fault), what was left\n"
        "out, by kind, as loader.stream.skipped_data.SkippedData, whether units have lost some of their entries, so "
        "that\n"
        "these bytes can't be used, and entries without a score, as ChunkWalk.unscored.");
    module.def("cut_units", &units_of_bytes, "codec"_a, "bytes"_a, "Those of a whole file that a writer has written.");
    module.def(
        "first_entries", &first_entries_of, "codec"_a, "bytes"_a, "begins"_a,
        "The first entry of each unit as a record (record.h), uint8 [units, 32]; zeros for a game without moves.");
    module.def("gather_units", &gather_units, "bytes"_a, "begins"_a, "ends"_a, "order"_a,
               "Units `order`, one behind the other, uint8.");
    module.def("units_into_buckets", &units_into_buckets, "blocks"_a, "shift"_a,
               "Blocks of (bytes, ends, entries, draws) as drawn units in 256 buckets, by the bits of the draws from\n"
               "`shift` on: bytes, and where each bucket begins, uint64 [257]. A drawn unit has a header of 16 bytes.");
    module.def("drawn_into_buckets", &drawn_into_buckets, "drawn"_a, "shift"_a,
               "The same of drawn units one behind the other.");
    module.def("places_by_draw", &places_by_draw, "drawn"_a,
               "Where each drawn unit begins, by ascending draws, equal ones in the order of the input.");
    module.def("drawn_units_at", &drawn_units_at, "drawn"_a, "places"_a,
               "The units at these places, in that order: bytes, ends, entries, None.");
}

}  // namespace sparsepool::chess
