#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <string>

namespace sparsepool {

// Raises loader.errors.DataError, or DataChangedError; the GIL must be held.
[[noreturn]] inline void raise_data_error(const nanobind::object& file, const std::string& reason,
                                          std::optional<std::uint64_t> offset = std::nullopt, bool changed = false) {
    namespace nb = nanobind;
    const nb::object type = nb::module_::import_("loader.errors").attr(changed ? "DataChangedError" : "DataError");
    const nb::object python_offset = offset ? nb::object(nb::int_(*offset)) : nb::object(nb::none());
    const nb::object error = type(file, reason, python_offset);
    PyErr_SetObject(type.ptr(), error.ptr());
    throw nb::python_error();
}

}  // namespace sparsepool
