// What a reader written in Python says of damage (loader/formats/errors.py).
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "bind/files.h"
#include "stream/source.h"

namespace sparsepool {

// Kind, entries, units, the noun for one; and of the first its file, what is wrong, and its offset.
using LeftOutTuple = std::tuple<std::string, std::uint64_t, std::uint64_t, std::string, nanobind::str, std::string,
                                std::optional<std::uint64_t>>;

inline LeftOutTuple as_tuple(const stream::LeftOut& left_out) {
    return {left_out.kind,         left_out.entries,     left_out.units, left_out.unit, name_of(left_out.first.file),
            left_out.first.reason, left_out.first.offset};
}

// The other way round.
inline stream::LeftOut left_out_of(const nanobind::handle& answer) {
    const auto parts = nanobind::cast<nanobind::tuple>(answer);
    stream::LeftOut left_out;
    left_out.kind = nanobind::cast<std::string>(parts[0]);
    left_out.entries = nanobind::cast<std::uint64_t>(parts[1]);
    left_out.units = nanobind::cast<std::uint64_t>(parts[2]);
    left_out.unit = nanobind::cast<std::string>(parts[3]);
    left_out.first.file = nanobind::cast<std::string>(parts[4]);
    left_out.first.reason = nanobind::cast<std::string>(parts[5]);
    if (!parts[6].is_none()) left_out.first.offset = nanobind::cast<std::uint64_t>(parts[6]);
    return left_out;
}

// Of (file, reason, offset or None, "damaged", "changed" or "unreadable").
inline stream::SourceFault fault_of(const nanobind::handle& answer) {
    using enum stream::SourceFault::Kind;
    const auto parts = nanobind::cast<nanobind::tuple>(answer);
    stream::SourceFault fault;
    fault.file = nanobind::cast<std::string>(parts[0]);
    fault.reason = nanobind::cast<std::string>(parts[1]);
    if (!parts[2].is_none()) fault.offset = nanobind::cast<std::uint64_t>(parts[2]);
    const auto kind = nanobind::cast<std::string>(parts[3]);
    fault.kind = kind == "damaged" ? kDamaged : kind == "changed" ? kChanged : kUnreadable;
    return fault;
}

}  // namespace sparsepool
