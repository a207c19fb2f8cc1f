// Faults and skipped data as tuples of Python (loader/formats/errors.py, loader/stream/skipped_data.py).
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

// Kind, entries, units, the noun for one unit; then the first fault's file, reason and offset.
using SkippedTuple = std::tuple<std::string, std::uint64_t, std::uint64_t, std::string, nanobind::str, std::string,
                                std::optional<std::uint64_t>>;

inline SkippedTuple as_tuple(const stream::SkippedData& skipped) {
    const stream::SourceFault& first = skipped.first;
    return {skipped.kind,        skipped.entries, skipped.units, skipped.unit,
            name_of(first.file), first.reason,    first.offset};
}

// Converts a SkippedTuple that Python code returned.
inline stream::SkippedData skipped_data_of(const nanobind::handle& value) {
    const auto parts = nanobind::cast<nanobind::tuple>(value);
    stream::SkippedData skipped;
    skipped.kind = nanobind::cast<std::string>(parts[0]);
    skipped.entries = nanobind::cast<std::uint64_t>(parts[1]);
    skipped.units = nanobind::cast<std::uint64_t>(parts[2]);
    skipped.unit = nanobind::cast<std::string>(parts[3]);
    skipped.first.file = nanobind::cast<std::string>(parts[4]);
    skipped.first.reason = nanobind::cast<std::string>(parts[5]);
    if (!parts[6].is_none()) skipped.first.offset = nanobind::cast<std::uint64_t>(parts[6]);
    return skipped;
}

// Converts a tuple that Python code returned: file, reason, offset or None, and "damaged", "changed" or "unreadable".
inline stream::SourceFault fault_of(const nanobind::handle& value) {
    using enum stream::SourceFault::Kind;
    const auto parts = nanobind::cast<nanobind::tuple>(value);
    stream::SourceFault fault;
    fault.file = nanobind::cast<std::string>(parts[0]);
    fault.reason = nanobind::cast<std::string>(parts[1]);
    if (!parts[2].is_none()) fault.offset = nanobind::cast<std::uint64_t>(parts[2]);
    const auto kind = nanobind::cast<std::string>(parts[3]);
    if (kind == "damaged") {
        fault.kind = kDamaged;
    } else if (kind == "changed") {
        fault.kind = kChanged;
    } else {
        fault.kind = kUnreadable;
    }
    return fault;
}

}  // namespace sparsepool
