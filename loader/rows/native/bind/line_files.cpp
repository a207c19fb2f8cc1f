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
#include "lines/line_file.h"
#include "rows/native/bind/bind.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::rows {
namespace {

std::shared_ptr<const lines::LineFile> open_file(const FileName& name, const std::optional<Identity>& identity,
                                                 bool may_grow) {
    std::optional<ExpectedFile> expected;
    if (identity) expected = expected_file(*identity, may_grow);
    lines::LineFile::Opened opened;
    {
        const nb::gil_scoped_release release;
        opened = lines::LineFile::open(name.path, expected);
    }
    if (!opened.file) raise_data_error(name.given, opened.fault.reason, std::nullopt, opened.fault.changed);
    return opened.file;
}

lines::Piece read_piece(const lines::LineFile& file, std::size_t index) {
    if (index >= file.num_pieces()) throw nb::index_error("the file has not so many chunks");
    const nb::gil_scoped_release release;
    return file.read(index);
}

std::uint64_t offset_of(const lines::LineFile& file, std::size_t chunk) {
    if (chunk >= file.num_pieces()) throw nb::index_error("the file has not so many chunks");
    return file.offset(chunk);
}

nb::bytes read_text(const lines::LineFile& file, std::size_t chunk) {
    const lines::Piece piece = read_piece(file, chunk);
    return nb::bytes(piece.lines().data(), piece.lines().size());
}

nb::bytes read_first_line(const lines::LineFile& file) {
    lines::Piece piece;
    const auto has_lines = [&] { return piece.text.size() > 1; };  // more than the line feed after them
    for (std::size_t i = 0; i < file.num_pieces() && !has_lines() && !piece.fault; ++i) piece = read_piece(file, i);
    if (!has_lines() && piece.fault) {
        const bool changed = piece.fault->kind == stream::SourceFault::Kind::kChanged;
        raise_data_error(name_of(file.path()), piece.fault->reason, piece.fault->offset, changed);
    }
    const std::string_view line = std::string_view(piece.text).substr(0, piece.text.find('\n'));
    return nb::bytes(line.data(), line.size());
}

}  // namespace

void bind_line_files(nb::module_& module) {
    nb::class_<lines::LineFile>(module, "LineFile", "The pieces of a file of lines, compressed or not.")
        .def(nb::new_(&open_file), "path"_a, "identity"_a = nb::none(), "may_grow"_a = false,
             "Raises DataError if the file can't be read at all. `identity`: as for open_entries.")
        .def_prop_ro("size", &lines::LineFile::size, "bytes")
        .def_prop_ro("num_chunks", &lines::LineFile::num_pieces)
        .def_prop_ro("is_packed", &lines::LineFile::is_packed, "compressed: decoded in the order of the file")
        .def_prop_ro("whole_size", &lines::LineFile::whole_size, "bytes up to the end of the last whole line")
        .def("offset", &offset_of, "chunk"_a, "Bytes of the file before the chunk, about.")
        .def("text", &read_text, "chunk"_a, "Whole lines; those before a fault.")
        .def("first_line", &read_first_line, "Without its line feed. Raises DataError.");
}

}  // namespace sparsepool::rows
