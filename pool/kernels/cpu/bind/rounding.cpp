#include "rounding/rounding.h"

#include "bind/arrays.h"
#include "bind/bind.h"

namespace nb = nanobind;
namespace sparsepool {
namespace {

bool numbers_to_bfloat16(const OutArray& out, const Array& source, std::size_t threads) {
    require(out.ndim() == 1, "out has ", out.ndim(), " dimensions, must have 1");
    const std::size_t size = out.shape(0);
    BFloat16* to = bfloat16(out, "out", 1);
    const float* from = floats<const float>(source, "source", size);
    const nb::gil_scoped_release release;
    return round_numbers(to, from, size, threads);
}

bool rows_to_bfloat16(const OutArray& out, const Array& table, const Array& rows, std::size_t threads) {
    const ConstMatrix from = matrix<const float>(table, "table");
    const Numbers list = numbers(rows, "rows");
    BFloat16* to = bfloat16(out, "out", 2);
    require(out.shape(0) == list.size && out.shape(1) == from.columns, "out is [", out.shape(0), ", ", out.shape(1),
            "], but there are ", list.size, " rows of ", from.columns, " numbers");
    const nb::gil_scoped_release release;
    return round_rows(to, from, list, threads);
}

}  // namespace

void bind_rounding(nb::module_& module) {
    module.def("round_numbers", &numbers_to_bfloat16, nb::arg("out"), nb::arg("source"), nb::kw_only(),
               nb::arg("threads") = 1,
               R"(out bfloat16 [n] = source float32 [n], to nearest even; whether all of it is finite then.

What lies beyond the largest bfloat16 becomes an infinity; a NaN stays a NaN.)");
    module.def("round_rows", &rows_to_bfloat16, nb::arg("out"), nb::arg("table"), nb::arg("rows"), nb::kw_only(),
               nb::arg("threads") = 1,
               R"(The same of some rows: out bfloat16 [n, C], table float32 [R, C], rows uint16 or uint32 [n], strictly
ascending and below R. Row i of out is row rows[i] of the table.)");
}

}  // namespace sparsepool
