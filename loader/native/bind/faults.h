// What a reader written in Python says of damage (loader/formats/errors.py).
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>

#include "stream/source.h"

namespace sparsepool {

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
