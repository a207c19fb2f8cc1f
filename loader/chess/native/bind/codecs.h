#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <optional>

#include "bind/errors.h"
#include "bind/files.h"
#include "chess/native/files/codec.h"
#include "chess/native/files/file.h"

// What the bindings of formats have in common.
namespace sparsepool::chess {

// The function `name` of the module, which gives a format's codec.
inline void bind_codec(nanobind::module_& module, const char* name, const Codec& (*codec)()) {
    module.def(name, codec, nanobind::rv_policy::reference, "The format of this name, both ways.");
}

// What `open` gives for the file that is expected. Raises DataError.
template <class Open>
[[nodiscard]] std::shared_ptr<const EntryFile> opened_file(const FileName& name,
                                                           const std::optional<Identity>& identity, bool may_grow,
                                                           Open open) {
    std::optional<ExpectedFile> expected;
    if (identity) expected = expected_file(*identity, may_grow);
    OpenedFile opened;
    {
        const nanobind::gil_scoped_release release;
        opened = open(expected);
    }
    if (!opened.file) raise_data_error(name.given, opened.fault.reason, std::nullopt, opened.fault.changed);
    return opened.file;
}

}  // namespace sparsepool::chess
