#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <vector>

#include "rows/formats/svmlight/native/reader.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::svmlight {

void bind(nb::module_& module) {
    nb::class_<Reader, rows::RowReader>(module, "SvmlightReader", "Svmlight files for the stream.")
        .def(nb::init<std::vector<std::shared_ptr<const lines::LineFile>>>(), "files"_a)
        .def("skip_damage", &Reader::skip_damage, "Skips lines that can't be read, from now on.");
}

}  // namespace sparsepool::svmlight
