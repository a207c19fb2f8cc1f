#include "bind/files.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include "bind/bind.h"
#include "compression/packer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool {
namespace {

std::string file_change(const FileName& name, const Identity& identity, bool may_grow) {
    const nb::gil_scoped_release release;
    return change_since(expected_file(identity, may_grow), name.path);
}

void make_packer(packed::ZstdPacker* place, int level) {
    if (const packed::Zstd* zstd = packed::zstd()) {
        new (place) packed::ZstdPacker(*zstd, level);
        return;
    }
    const nb::object error = nb::module_::import_("loader.errors").attr("UsageError")(packed::kNoZstd);
    PyErr_SetObject(error.type().ptr(), error.ptr());
    throw nb::python_error();
}

nb::bytes pack(packed::ZstdPacker& packer, const nb::bytes& bytes, bool last) {
    std::string packed;
    {
        const nb::gil_scoped_release release;
        packed = packer.pack({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, last);
    }
    return nb::bytes(packed.data(), packed.size());
}

}  // namespace

ExpectedFile expected_file(const Identity& identity, bool may_grow) {
    const auto [size, device, inode, modified] = identity;
    std::optional<FileTime> time;
    if (modified) time = {modified->first, modified->second};
    return {{size, device, inode, time}, may_grow};
}

nb::str name_of(const std::string& path) {
    return nb::steal<nb::str>(PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
}

void bind_files(nb::module_& module) {
    module.def("file_change", &file_change, "path"_a, "identity"_a, "may_grow"_a,
               "What tells the file of this name from the one of that identity, in words; empty if nothing does.");
    nb::class_<packed::ZstdPacker>(module, "ZstdPacker", "Makes one zstd frame of bytes that come in parts.")
        .def("__init__", &make_packer, "level"_a = 3, "Raises UsageError where zstd is missing.")
        .def("pack", &pack, "bytes"_a, "last"_a, "What is done of the frame after these bytes; with `last` its end.");
}

}  // namespace sparsepool
