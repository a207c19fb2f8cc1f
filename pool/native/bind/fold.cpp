#include "fold.h"

#include "bind.h"
#include "sources.h"

namespace nb = nanobind;
using namespace sparsepool;

namespace {

void fold_list(const OutArray& out, const std::vector<Array>& sources, bool accumulate, float scale,
               std::size_t threads) {
    require(out.ndim() == 1, "out has ", out.ndim(), " dimensions, must have 1");
    const std::size_t size = out.shape(0);
    float* to = floats<float>(out, "out", size);
    const std::vector<const float*> from = dense_sources(sources, size);
    const nb::gil_scoped_release release;
    fold(to, size, from, accumulate, scale, threads);
}

void fold_row_list(const OutArray& out, const RowPairs& sources, bool accumulate, float scale, std::size_t first_row,
                   std::size_t threads) {
    const Matrix to = matrix<float>(out, "out");
    const std::vector<RowSource> from = row_sources(sources, "out", to.rows, to.columns);
    const nb::gil_scoped_release release;
    fold_rows(to, from, accumulate, scale, first_row, threads);
}

bool copy_list(const OutArray& out, const Array& source) {
    require(out.ndim() == 1, "out has ", out.ndim(), " dimensions, must have 1");
    const std::size_t size = out.shape(0);
    float* to = floats<float>(out, "out", size);
    const float* from = floats<const float>(source, "source", size);
    const nb::gil_scoped_release release;
    return copy_checked(from, to, size);
}

}  // namespace

void bind_fold(nb::module_& module) {
    module.def("copy_checked", &copy_list, nb::arg("out"), nb::arg("source"));
    module.def("fold", &fold_list, nb::arg("out"), nb::arg("sources"), nb::kw_only(), nb::arg("accumulate") = false,
               nb::arg("scale") = 1.0F, nb::arg("threads") = 1);
    module.def("fold_rows", &fold_row_list, nb::arg("out"), nb::arg("sources"), nb::kw_only(),
               nb::arg("accumulate") = false, nb::arg("scale") = 1.0F, nb::arg("first_row") = 0,
               nb::arg("threads") = 1);
}
