#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <vector>

#include "bind/errors.h"
#include "bind/files.h"
#include "formats/svmlight/native/file/lines.h"
#include "formats/svmlight/native/reader.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::svmlight {
namespace {

std::shared_ptr<const LineFile> open_file(const FileName& name, const std::optional<Identity>& identity,
                                          bool may_grow) {
    std::optional<ExpectedFile> expected;
    if (identity) expected = expected_file(*identity, may_grow);
    LineFile::Opened opened;
    {
        const nb::gil_scoped_release release;
        opened = LineFile::open(name.path, expected);
    }
    if (!opened.file) raise_data_error(name.given, opened.fault.reason, std::nullopt, opened.fault.changed);
    return opened.file;
}

}  // namespace

void bind(nb::module_& module) {
    nb::class_<LineFile>(module, "SvmlightFile", "The pieces of a file of lines, compressed or not.")
        .def(nb::new_(&open_file), "path"_a, "identity"_a = nb::none(), "may_grow"_a = false,
             "Raises DataError if the file can't be read at all. `identity`: as BinpackFile's.")
        .def_prop_ro("size", &LineFile::size, "bytes")
        .def_prop_ro("num_chunks", &LineFile::num_pieces)
        .def_prop_ro("is_packed", &LineFile::is_packed, "compressed: decoded in the order of the file")
        .def_prop_ro("whole_size", &LineFile::whole_size, "bytes up to the end of the last whole line")
        .def(
            "offset",
            [](const LineFile& file, std::size_t chunk) {
                if (chunk >= file.num_pieces()) throw nb::index_error("the file has not so many chunks");
                return file.offset(chunk);
            },
            "chunk"_a, "Bytes of the file before the chunk, about.");
    nb::class_<Reader, rows::RowReader>(module, "SvmlightReader", "Svmlight files for the stream.")
        .def(nb::init<std::vector<std::shared_ptr<const LineFile>>>(), "files"_a);
}

}  // namespace sparsepool::svmlight
