#include "sparse_plan.h"

#include <nanobind/stl/optional.h>

#include <new>
#include <optional>

#include "arrays.h"
#include "bind.h"

namespace nb = nanobind;
using namespace sparsepool;

namespace {

void make(SparsePlan* plan, const Array& row_offsets, const Array& features, std::size_t num_features) {
    const Offsets rows = offsets(row_offsets, "offsets");
    const Numbers index = numbers(features, "features");
    const nb::gil_scoped_release release;
    new (plan) SparsePlan(rows, index, num_features);
}

void forward(const SparsePlan& plan, const Array& weight, const std::optional<Array>& bias, const OutArray& out,
             std::size_t threads) {
    const ConstMatrix table = matrix<const float>(weight, "weight");
    const float* start = bias ? floats<const float>(*bias, "bias", table.columns) : nullptr;
    const Matrix to = matrix<float>(out, "out");
    const nb::gil_scoped_release release;
    plan.forward(table, start, to, threads);
}

void backward(const SparsePlan& plan, const Array& grad_out, const OutArray& grad_weight, const OutArray& column_sums,
              std::size_t first_tile, std::optional<std::size_t> last_tile, std::size_t threads) {
    const ConstMatrix from = matrix<const float>(grad_out, "grad_out");
    const Matrix to = matrix<float>(grad_weight, "grad_weight");
    float* sums = floats<float>(column_sums, "column_sums", to.columns);
    const nb::gil_scoped_release release;
    plan.backward(from, to, sums, first_tile, last_tile.value_or(plan.num_tiles()), threads);
}

}  // namespace

void bind_sparse_plan(nb::module_& module) {
    nb::class_<SparsePlan>(module, "SparsePlan")
        .def("__init__", &make, nb::arg("offsets"), nb::arg("features"), nb::arg("num_features"))
        .def_prop_ro("worth", &SparsePlan::worth)
        .def_prop_ro("num_tiles", &SparsePlan::num_tiles)
        .def("tiles_until", &SparsePlan::tiles_until, nb::arg("row"))
        .def("forward", &forward, nb::arg("weight"), nb::arg("bias").none(), nb::arg("out"), nb::arg("threads") = 1)
        .def("backward", &backward, nb::arg("grad_out"), nb::arg("grad_weight"), nb::arg("column_sums"),
             nb::arg("first_tile") = 0, nb::arg("last_tile") = nb::none(), nb::arg("threads") = 1);
}
