#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chess/native/bind/bind.h"
#include "chess/native/table/table.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::chess {
namespace {

template <class Item>
using NewBytes = nb::ndarray<nb::numpy, std::uint8_t, nb::shape<-1, sizeof(Item)>, nb::c_contig>;
using RowBytes = nb::ndarray<const std::uint8_t, nb::shape<-1, sizeof(Row)>, nb::c_contig, nb::device::cpu>;

template <class Item>
NewBytes<Item> owned(std::vector<Item> items) {
    auto kept = std::make_unique<std::vector<Item>>(std::move(items));
    auto* data = reinterpret_cast<std::uint8_t*>(kept->data());
    const std::size_t count = kept->size();
    const nb::capsule owner(kept.release(), [](void* old) noexcept { delete static_cast<std::vector<Item>*>(old); });
    return NewBytes<Item>(data, {count, sizeof(Item)}, owner);
}

nb::object add_rows(EntryWriter& writer, const RowBytes& bytes) {
    std::size_t number = 0;
    std::string fault;
    {
        const nb::gil_scoped_release release;
        const auto* rows = reinterpret_cast<const Row*>(bytes.data());
        for (; number < bytes.shape(0); ++number) {
            Entry entry;
            fault = to_entry(rows[number], entry);
            if (fault.empty()) fault = writer.add(entry);
            if (!fault.empty()) break;
        }
    }
    return fault.empty() ? nb::none() : nb::object(nb::make_tuple(number, fault));
}

}  // namespace

void bind_table(nb::module_& module) {
    nb::class_<TableWriter, EntryWriter>(module, "TableWriter", "Keeps entries as rows of a table.")
        .def(nb::init<bool>(), "keeps_records"_a = false)
        .def(
            "take_rows", [](TableWriter& self) { return owned(self.take_rows()); },
            "Those since the last call (chess/native/table/table.h), uint8 [entries, 80].")
        .def(
            "take_records", [](TableWriter& self) { return owned(self.take_records()); },
            "With keeps_records: the same as records (record.h), uint8 [entries, 32].");
    module.def("add_rows", &add_rows, "writer"_a, "rows"_a,
               "Adds rows [rows, 80] to a writer. None; or the number of the first that is no entry or that its format "
               "can't hold, and why: those before it have been added.");
}

}  // namespace sparsepool::chess
