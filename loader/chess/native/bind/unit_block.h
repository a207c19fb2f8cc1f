#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "chess/native/units/units.h"

namespace sparsepool::chess {

// (bytes, ends uint64, entries uint32, fault or None), as `loader.chess.positions.units.UnitBlock` takes them.
[[nodiscard]] nanobind::object unit_tuple(UnitBlock block);

using UnitBytes = nanobind::ndarray<const std::uint8_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using UnitPlaces = nanobind::ndarray<const std::uint64_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using RecordBytes =
    nanobind::ndarray<nanobind::numpy, std::uint8_t, nanobind::shape<-1, sizeof(Record)>, nanobind::c_contig>;

// `first(begins)` as uint8 [units, 32]. Raises IndexError for a unit of less than `least` bytes within `bytes`.
template <class First>
[[nodiscard]] RecordBytes first_records(const UnitBytes& bytes, const UnitPlaces& begins, std::size_t least,
                                        First first) {
    auto records = std::make_unique<std::vector<Record>>();
    {
        const nanobind::gil_scoped_release release;
        const std::span<const std::uint64_t> places(begins.data(), begins.size());
        std::uint64_t before = 0;
        for (const std::uint64_t begin : places) {
            const bool within = before <= begin && begin <= bytes.size() && bytes.size() - begin >= least;
            if (!within) throw nanobind::index_error("a unit that is not within the bytes");
            before = begin;
        }
        *records = first(places);
    }
    auto* data = reinterpret_cast<std::uint8_t*>(records->data());
    const std::size_t size = records->size();
    const nanobind::capsule owner(records.release(),
                                  [](void* old) noexcept { delete static_cast<std::vector<Record>*>(old); });
    return RecordBytes(data, {size, sizeof(Record)}, owner);
}

}  // namespace sparsepool::chess
