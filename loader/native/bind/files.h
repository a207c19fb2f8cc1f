#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "common/files/identity.h"

// Names and identities of files, as Python has them.
namespace sparsepool {

// Of loader.files.identity.DataFile: size, device, inode, and seconds and nanoseconds of the last change.
using Identity =
    std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::optional<std::pair<std::int64_t, std::int64_t>>>;

[[nodiscard]] ExpectedFile expected_file(const Identity& identity, bool may_grow);

// A str, bytes or path-like, any name the system knows.
struct FileName {
    std::string path;
    nanobind::object given;
};

// A str of any bytes, as the system allows them.
[[nodiscard]] nanobind::str name_of(const std::string& path);

}  // namespace sparsepool

namespace nanobind::detail {

template <>
struct type_caster<sparsepool::FileName> {
    NB_TYPE_CASTER(sparsepool::FileName, const_name("str | os.PathLike[str]"))

    // Converts as os.fsencode does.
    bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
        PyObject* encoded = nullptr;
        if (PyUnicode_FSConverter(source.ptr(), &encoded) == 0) {
            PyErr_Clear();
            return false;
        }
        value.path = steal<bytes>(encoded).c_str();
        value.given = borrow(source);
        return true;
    }
};

}  // namespace nanobind::detail
