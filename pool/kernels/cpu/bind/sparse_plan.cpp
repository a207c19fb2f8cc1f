#include "sparse/plan/sparse_plan.h"

#include <nanobind/stl/optional.h>

#include <new>
#include <optional>

#include "bind/arrays.h"
#include "bind/bind.h"

namespace nb = nanobind;

namespace sparsepool {
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
    nb::class_<SparsePlan>(
        module, "SparsePlan",
        R"(How the bags of one batch are summed with few reads; see pool/kernels/cpu/sparse/plan/sparse_plan.h. Keeps no view of its input.

Forward and backward compute what sparse_forward and sparse_backward_rows do, in another order of additions,
which depends on the bags alone.)")
        .def("__init__", &make, nb::arg("offsets"), nb::arg("features"), nb::arg("num_features"),
             R"(offsets uint32 [N + 1] from 0 to A, features uint16 or uint32 [A], each below num_features.)")
        .def_prop_ro("worth", &SparsePlan::worth,
                     R"(Whether bags share enough rows; if not, the plan is empty and must not be used (ValueError).)")
        .def_prop_ro("num_tiles", &SparsePlan::num_tiles, R"(Bags that share rows are summed tile by tile.)")
        .def("tiles_until", &SparsePlan::tiles_until, nb::arg("row"),
             R"(How many tiles have to be done in backward until no row below `row` changes any more.)")
        .def("forward", &forward, nb::arg("weight"), nb::arg("bias").none(), nb::arg("out"), nb::arg("threads") = 1,
             R"(out [N, O]: bias [O] or None (zeros) plus the rows of weight [num_features, O]. All float32.)")
        .def("backward", &backward, nb::arg("grad_out"), nb::arg("grad_weight"), nb::arg("column_sums"),
             nb::arg("first_tile") = 0, nb::arg("last_tile") = nb::none(), nb::arg("threads") = 1,
             R"(Rows of grad_weight [num_features, O] of all features in bags: sums of rows of grad_out [N, O].

column_sums [O]: sum of all rows of grad_out. Tiles may be done in several calls, in order, with the same bits.)");
}

}  // namespace sparsepool
