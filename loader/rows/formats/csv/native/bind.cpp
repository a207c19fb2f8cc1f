#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "rows/formats/csv/native/reader.h"
#include "rows/formats/csv/native/text/cells.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::csv {
namespace {

void make_cut(Cut* cut, const std::string& delimiter, const std::string& quote, bool header) {
    require(delimiter.size() == 1 && quote.size() <= 1, "a delimiter is one character, a quote one at most");
    new (cut) Cut{delimiter[0], std::nullopt, header};
    if (!quote.empty()) cut->quote = quote[0];
}

std::vector<nb::bytes> split(const Cut& cut, const nb::bytes& line) {
    std::string text(line.c_str(), line.size());
    if (!text.empty() && text.back() == '\r') text.pop_back();
    const std::size_t size = text.size();
    text += '\n';
    Cells cells(cut);
    const char* const fault = cells.split(text.data(), text.data() + size);
    if (fault != nullptr) refuse("byte " + std::to_string(fault - text.data() + 1) + ": " + cells.reason());
    std::vector<nb::bytes> texts;
    for (std::size_t i = 0; i < cells.size(); ++i) texts.emplace_back(cells[i].data(), cells[i].size());
    return texts;
}

void make_reader(Reader* reader, std::vector<std::shared_ptr<const lines::LineFile>> files,
                 std::vector<Columns> columns, const rows::RowShape& shape) {
    require(files.size() == columns.size(), "each file has its columns");
    for (const Columns& each : columns) require_fit(each, shape);
    new (reader) Reader(std::move(files), std::move(columns));
}

}  // namespace

void bind(nb::module_& module) {
    nb::class_<Cut>(module, "CsvCut", "How lines are cut into columns.")
        .def("__init__", &make_cut, "delimiter"_a, "quote"_a, "header"_a, "quote: empty for none")
        .def("split", &split, "line"_a, "The texts of a line, without its line feed. Raises ValueError: which byte.");
    nb::class_<Columns>(module, "CsvColumns", "Which columns of a file are what; see loader.rows.formats.csv.table.")
        .def(
            "__init__",
            [](Columns* columns, const Cut& cut) {
                new (columns) Columns();
                columns->cut = cut;
            },
            "cut"_a)
        .def_ro("cut", &Columns::cut)
        .def_rw("width", &Columns::width)
        .def_rw("dense", &Columns::dense, "in the order of the shape")
        .def_rw("qid", &Columns::qid)
        .def_rw("fields", &Columns::fields, "of each field of the shape")
        .def_rw("seed", &Columns::seed)
        .def_rw("missing", &Columns::missing)
        .def_rw("missing_number", &Columns::missing_number)
        .def_rw("float_ids_are_integers", &Columns::float_ids_are_integers)
        .def_rw("missing_is_feature", &Columns::missing_is_feature);
    nb::class_<Reader, rows::RowReader>(module, "CsvReader", "Text files with columns, for the stream.")
        .def("__init__", &make_reader, "files"_a, "columns"_a, "shape"_a,
             "`columns`: of each file; `shape`: of the rows that will be read.")
        .def("skip_damage", &Reader::skip_damage, "Skips lines that can't be read, from now on.");
}

}  // namespace sparsepool::csv
