#include <nanobind/stl/optional.h>
#include <new>
#include <optional>

#include "bind/arrays.h"
#include "bind/bind.h"
#include "sparse/sparse_layer.h"
#include "sparse/sparse_plan.h"

namespace nb = nanobind;
namespace sparsepool {
namespace {

void forward(const Array& weight, const std::optional<Array>& bias, const Array& row_offsets, const Array& features,
             const OutArray& out, std::size_t threads, const std::optional<Array>& values) {
    const ConstMatrix table = matrix<const float>(weight, "weight");
    const float* start = bias ? floats<const float>(*bias, "bias", table.columns) : nullptr;
    const Offsets rows = offsets(row_offsets, "offsets");
    const Numbers index = numbers(features, "features");
    const float* factors = values ? floats<const float>(*values, "values", index.size) : nullptr;
    const Matrix to = matrix<float>(out, "out");
    const nb::gil_scoped_release release;
    sparse_forward(table, start, rows, index, factors, to, threads);
}

bool backward_rows(const Array& touched, const Array& touched_offsets, const Array& bags, const Array& grad_out,
                   const OutArray& grad_weight, const std::optional<Array>& values, std::size_t first,
                   std::optional<std::size_t> last, std::size_t threads) {
    TouchedLists lists{numbers(touched, "touched"), offsets(touched_offsets, "touched_offsets"), numbers(bags, "bags"),
                       nullptr};
    if (values) lists.values = floats<const float>(*values, "values", lists.bags.size);
    const ConstMatrix from = matrix<const float>(grad_out, "grad_out");
    const Matrix to = matrix<float>(grad_weight, "grad_weight");
    const nb::gil_scoped_release release;
    return sparse_backward_rows(lists, from, to, first, last.value_or(lists.touched.size), threads);
}

void sum_columns(const Array& matrix_, const OutArray& out, std::size_t threads) {
    const ConstMatrix from = matrix<const float>(matrix_, "matrix");
    float* to = floats<float>(out, "out", from.columns);
    const nb::gil_scoped_release release;
    column_sum(from, to, threads);
}

void bind_sparse_layer(nb::module_& module) {
    module.def(
        "sparse_forward", &forward, nb::arg("weight"), nb::arg("bias").none(), nb::arg("offsets"), nb::arg("features"),
        nb::arg("out"), nb::arg("threads") = 1, nb::kw_only(), nb::arg("values") = nb::none(),
        R"(out[i] = bias + weight[features[offsets[i]]] + ... + weight[features[offsets[i + 1] - 1]], left to right.

weight float32 [F, O], bias float32 [O] or None (zeros), offsets uint32 [N + 1] from 0 to A,
features uint16 or uint32 [A], out float32 [N, O]. With values, float32 [A], row number k of these is multiplied by
values[k] before it is added.)");
    module.def(
        "sparse_backward_rows", &backward_rows, nb::arg("touched"), nb::arg("touched_offsets"), nb::arg("bags"),
        nb::arg("grad_out"), nb::arg("grad_weight"), nb::kw_only(), nb::arg("values") = nb::none(),
        nb::arg("first") = 0, nb::arg("last") = nb::none(), nb::arg("threads") = 1,
        R"(grad_weight[touched[j]] = grad_out[bags[touched_offsets[j]]] + ..., left to right, for first <= j < last.

Rows of other features are neither read nor written. `last` None: all of them.
touched uint16 or uint32 [M], strictly ascending, touched_offsets uint32 [M + 1], bags uint16 or uint32 [A],
grad_out float32 [N, O], grad_weight float32 [F, O]. Only the lists of [first, last) are checked. With values,
float32 [A], row number k of these is multiplied by values[k]; then the result says whether all that was written is
finite. Without, it is True.)");
    module.def("column_sum", &sum_columns, nb::arg("matrix"), nb::arg("out"), nb::arg("threads") = 1,
               R"(out[c] = the sum of column c: sums of 256 rows each, added from the first. float32 [N, O] and [O].)");
}

void make(SparsePlan* plan, const Array& row_offsets, const Array& features, std::size_t num_features) {
    const Offsets rows = offsets(row_offsets, "offsets");
    const Numbers index = numbers(features, "features");
    const nb::gil_scoped_release release;
    new (plan) SparsePlan(rows, index, num_features);
}

void plan_forward(const SparsePlan& plan, const Array& weight, const std::optional<Array>& bias, const OutArray& out,
                  std::size_t threads) {
    const ConstMatrix table = matrix<const float>(weight, "weight");
    const float* start = bias ? floats<const float>(*bias, "bias", table.columns) : nullptr;
    const Matrix to = matrix<float>(out, "out");
    const nb::gil_scoped_release release;
    plan.forward(table, start, to, threads);
}

void plan_backward(const SparsePlan& plan, const Array& grad_out, const OutArray& grad_weight,
                   const OutArray& column_sums, std::size_t first_tile, std::optional<std::size_t> last_tile,
                   std::size_t threads) {
    const ConstMatrix from = matrix<const float>(grad_out, "grad_out");
    const Matrix to = matrix<float>(grad_weight, "grad_weight");
    float* sums = floats<float>(column_sums, "column_sums", to.columns);
    const nb::gil_scoped_release release;
    plan.backward(from, to, sums, first_tile, last_tile.value_or(plan.num_tiles()), threads);
}

void bind_sparse_plan(nb::module_& module) {
    nb::class_<SparsePlan>(
        module, "SparsePlan",
        R"(How the bags of one batch are summed with few reads; see pool/kernels/cpu/sparse/sparse_plan.h. Keeps no view of its input.

Forward and backward compute what sparse_forward and sparse_backward_rows do, in another order of additions,
which depends on the bags alone.)")
        .def("__init__", &make, nb::arg("offsets"), nb::arg("features"), nb::arg("num_features"),
             R"(offsets uint32 [N + 1] from 0 to A, features uint16 or uint32 [A], each below num_features.)")
        .def_prop_ro("is_worthwhile", &SparsePlan::is_worthwhile,
                     R"(Whether bags share enough rows; if not, the plan is empty and must not be used (ValueError).)")
        .def_prop_ro("num_tiles", &SparsePlan::num_tiles, R"(Bags that share rows are summed tile by tile.)")
        .def("tiles_until", &SparsePlan::tiles_until, nb::arg("row"),
             R"(How many tiles have to be done in backward until no row below `row` changes any more.)")
        .def("forward", &plan_forward, nb::arg("weight"), nb::arg("bias").none(), nb::arg("out"),
             nb::arg("threads") = 1,
             R"(out [N, O]: bias [O] or None (zeros) plus the rows of weight [num_features, O]. All float32.)")
        .def("backward", &plan_backward, nb::arg("grad_out"), nb::arg("grad_weight"), nb::arg("column_sums"),
             nb::arg("first_tile") = 0, nb::arg("last_tile") = nb::none(), nb::arg("threads") = 1,
             R"(Rows of grad_weight [num_features, O] of all features in bags: sums of rows of grad_out [N, O].

column_sums [O]: sum of all rows of grad_out. Tiles may be done in several calls, in order, with the same bits.)");
}

}  // namespace

void bind_sparse(nb::module_& module) {
    bind_sparse_layer(module);
    bind_sparse_plan(module);
}

}  // namespace sparsepool
