#include "reduce/reduce.h"

#include "bind/bind.h"
#include "bind/source_lists.h"

namespace nb = nanobind;
namespace sparsepool {
namespace {

void reduce_list(const OutArray& out, const std::vector<Array>& sources, const Leaves& leaves, float scale,
                 std::size_t threads) {
    const std::size_t size = out.size();
    float* to = flat_floats<float>(out, "out", size);
    const Sources from = dense_sources(sources, leaves, size);
    const nb::gil_scoped_release release;
    reduce(to, size, from, scale, threads);
}

void reduce_row_list(const OutArray& out, const RowPairs& sources, const Leaves& leaves, float scale,
                     std::size_t first_row, bool touched_only, std::size_t threads) {
    const Matrix to = matrix<float>(out, "out");
    const std::vector<RowSource> from = row_sources(sources, leaves, "out", to.rows, to.columns, first_row);
    const nb::gil_scoped_release release;
    reduce_rows(to, from, scale, first_row, touched_only, threads);
}

double squares_of(const Array& source, std::size_t threads) {
    require(source.ndim() == 1, "source has ", source.ndim(), " dimensions, must have 1");
    const std::size_t size = source.shape(0);
    const float* from = floats<const float>(source, "source", size);
    const nb::gil_scoped_release release;
    return sum_of_squares(from, size, threads);
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

void bind_reduce(nb::module_& module) {
    module.def("copy_checked", &copy_list, nb::arg("out"), nb::arg("source"),
               R"(Copies source to out, both float32 [n]; whether all of it is finite.)");
    module.def(
        "reduce", &reduce_list, nb::arg("out"), nb::arg("sources"), nb::kw_only(), nb::arg("leaves") = nb::none(),
        nb::arg("scale") = 1.0F, nb::arg("threads") = 1,
        R"(out = (sum of the sources) * scale, along the tree of pool/kernels/tree.py; all float32 of one size, of
any shape; sources also bfloat16, which is widened.

`leaves`: of each source in the tree, ascending; None: 0, 1, 2 ... Of none the sum is zeros; of one it is the
source, bit for bit. `out` may be one of the sources. A scale of 1.0 multiplies nothing.)");
    module.def("sum_of_squares", &squares_of, nb::arg("source"), nb::kw_only(), nb::arg("threads") = 1,
               R"(The sum of the squares of float32 [n], in double precision, in an order that n alone decides.)");
    module.def("reduce_rows", &reduce_row_list, nb::arg("out"), nb::arg("sources"), nb::kw_only(),
               nb::arg("leaves") = nb::none(), nb::arg("scale") = 1.0F, nb::arg("first_row") = 0,
               nb::arg("touched_only") = false, nb::arg("threads") = 1,
               R"(The sum of tables of which a source defines only the rows it touched; its other rows are never read.

out float32 [R, C]; sources: (gradient float32 or bfloat16 [R, C], touched uint16 or uint32 [m], strictly
ascending). A gradient may be [n, C] instead: the n touched rows among these R, one after the other.
Row r belongs to feature first_row + r; touched holds feature numbers, also beyond these rows. Rows touched by
none become zeros, or with `touched_only` stay as they are. A sum of -0.0 becomes 0.0.)");
}

}  // namespace sparsepool
