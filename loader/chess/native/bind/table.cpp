#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chess/native/bind/arrays.h"
#include "chess/native/bind/bind.h"
#include "chess/native/table/table.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::chess {
namespace {

using RowBytes = nb::ndarray<const std::uint8_t, nb::shape<-1, sizeof(Row)>, nb::c_contig, nb::device::cpu>;

// Adds rows to a writer up to the first bad one. Returns its index and what is wrong, or None.
nb::object add_rows(EntryWriter& writer, const RowBytes& bytes) {
    std::size_t index = 0;
    std::string problem;
    {
        const nb::gil_scoped_release release;
        const auto* rows = reinterpret_cast<const Row*>(bytes.data());
        for (; index < bytes.shape(0); ++index) {
            Entry entry;
            problem = to_entry(rows[index], entry);
            if (problem.empty()) problem = writer.add(entry);
            if (!problem.empty()) break;
        }
    }
    return problem.empty() ? nb::none() : nb::object(nb::make_tuple(index, problem));
}

}  // namespace

void bind_table(nb::module_& module) {
    nb::class_<TableWriter, EntryWriter>(module, "TableWriter", "Keeps entries as rows of a table.")
        .def(nb::init<bool>(), "keeps_records"_a = false)
        .def(
            "take_rows", [](TableWriter& self) { return to_item_bytes(self.take_rows()); },
            "Those since the last call (chess/native/table/table.h), uint8 [entries, 80].")
        .def(
            "take_records", [](TableWriter& self) { return to_item_bytes(self.take_records()); },
            "With keeps_records: the same as records (record.h), uint8 [entries, 32].");
    module.def("add_rows", &add_rows, "writer"_a, "rows"_a,
               "Adds rows [rows, 80] to a writer. None; or the number of the first that is no entry or that its format "
               "can't hold, and why: those before it have been added.");
}

}  // namespace sparsepool::chess
