#include "fold.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bind.h"

namespace nb = nanobind;
using namespace sparsepool;

namespace {

void fold_list(const OutArray& out, const std::vector<Array>& sources, bool accumulate, float scale,
               std::size_t threads) {
    require(out.ndim() == 1, "out has ", out.ndim(), " dimensions, must have 1");
    const std::size_t size = out.shape(0);
    float* to = floats<float>(out, "out", size);
    std::vector<const float*> from;
    for (const Array& source : sources) {
        from.push_back(floats<const float>(source, ("source " + std::to_string(from.size())).c_str(), size));
    }
    const nb::gil_scoped_release release;
    fold(to, size, from, accumulate, scale, threads);
}

void fold_row_list(const OutArray& out, const std::vector<std::pair<Array, Array>>& sources, bool accumulate,
                   float scale, std::size_t first_row, std::size_t threads) {
    const Matrix to = matrix<float>(out, "out");
    std::vector<RowSource> from;
    for (const auto& [gradient, touched] : sources) {
        const std::string name = "source " + std::to_string(from.size());
        const ConstMatrix rows = matrix<const float>(gradient, name.c_str());
        require(rows.rows == to.rows && rows.columns == to.columns, name, " is [", rows.rows, ", ", rows.columns,
                "], but out is [", to.rows, ", ", to.columns, "]");
        from.push_back({rows.data, numbers(touched, ("touched of " + name).c_str())});
    }
    const nb::gil_scoped_release release;
    fold_rows(to, from, accumulate, scale, first_row, threads);
}

}  // namespace

void bind_fold(nb::module_& module) {
    module.def("fold", &fold_list, nb::arg("out"), nb::arg("sources"), nb::kw_only(), nb::arg("accumulate") = false,
               nb::arg("scale") = 1.0F, nb::arg("threads") = 1);
    module.def("fold_rows", &fold_row_list, nb::arg("out"), nb::arg("sources"), nb::kw_only(),
               nb::arg("accumulate") = false, nb::arg("scale") = 1.0F, nb::arg("first_row") = 0,
               nb::arg("threads") = 1);
}
