#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "chess/native/bind/arrays.h"
#include "chess/native/units/units.h"

namespace sparsepool::chess {

// (bytes, ends uint64, entries uint32, fault or None), as `loader.chess.positions.units.UnitBlock` takes them.
[[nodiscard]] nanobind::object unit_tuple(UnitBlock block);

using UnitBytes = nanobind::ndarray<const std::uint8_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using UnitPlaces = nanobind::ndarray<const std::uint64_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
// Returns `first_of(begins)`, the first records of units, as uint8 [units, 32]. Raises IndexError if units are not
// ascending, or if one of them has less than `min_bytes` within `bytes`.
template <class FirstOf>
[[nodiscard]] NewItemBytes<Record> first_records(const UnitBytes& bytes, const UnitPlaces& begins,
                                                 std::size_t min_bytes, FirstOf first_of) {
    std::vector<Record> records;
    {
        const nanobind::gil_scoped_release release;
        const std::span<const std::uint64_t> offsets(begins.data(), begins.size());
        std::uint64_t previous = 0;
        for (const std::uint64_t begin : offsets) {
            const bool is_ascending = previous <= begin;
            const bool is_within = begin <= bytes.size() && bytes.size() - begin >= min_bytes;
            if (!is_ascending || !is_within) throw nanobind::index_error("a unit that is not within the bytes");
            previous = begin;
        }
        records = first_of(offsets);
    }
    return to_item_bytes(std::move(records));
}

}  // namespace sparsepool::chess
