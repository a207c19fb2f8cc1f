#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>
#include <optional>

#include "bind/arrays.h"
#include "bind/bind.h"
#include "memory/elementwise.h"
#include "memory/heap.h"
#include "memory/lines.h"
#include "memory/rows.h"

namespace nb = nanobind;
namespace sparsepool {
namespace {

void add(const OutArray& average, const Array& weights, float rate, std::size_t threads) {
    require(average.ndim() == 1, "average has ", average.ndim(), " dimensions, must have 1");
    const std::size_t size = average.shape(0);
    float* to = floats<float>(average, "average", size);
    const float* from = floats<const float>(weights, "weights", size);
    const nb::gil_scoped_release release;
    add_to_average(to, from, size, rate, threads);
}

void bind_average(nb::module_& module) {
    module.def("add_to_average", &add, nb::arg("average"), nb::arg("weights"), nb::kw_only(), nb::arg("rate"),
               nb::arg("threads") = 1, R"(average += rate * (weights - average), both float32 [n].)");
}

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

using nb::literals::operator""_a;

template <class Number>
Number* list_of(const auto& array, const char* name) {
    require(array.dtype() == nb::dtype<std::remove_const_t<Number>>(), name, " must be uint", 8 * sizeof(Number));
    require_shape(array, name, 1);
    return static_cast<Number*>(array.data());
}

std::size_t union_of(const OutArray& out, const std::vector<Array>& lists, std::size_t first, std::size_t last) {
    auto* to = list_of<std::uint32_t>(out, "out");
    std::vector<Numbers> from;
    std::size_t max_rows = 0;
    for (const Array& list : lists) {
        from.push_back(numbers(list, "list"));
        max_rows += from.back().size;
    }
    require(out.shape(0) >= max_rows, "out has ", out.shape(0), " numbers, must have ", max_rows);
    const nb::gil_scoped_release release;
    return union_rows(to, from, first, last);
}

void copy_list(const OutArray& out, const Array& source, const Array& rows, const std::optional<Array>& but_not,
               std::size_t first_row, std::size_t threads) {
    const Matrix to = matrix<float>(out, "out");
    const ConstMatrix from = matrix<const float>(source, "source");
    require(from.rows == to.rows && from.columns == to.columns, "source is [", from.rows, ", ", from.columns,
            "], but out is [", to.rows, ", ", to.columns, "]");
    const Numbers list = numbers(rows, "rows");
    const Numbers left_out = but_not ? numbers(*but_not, "but_not") : Numbers{};
    const nb::gil_scoped_release release;
    copy_rows(to, from, list, left_out, first_row, threads);
}

std::uint64_t copy_bytes(const OutArray& out, const Array& source, std::uint64_t first_line,
                         const std::optional<Array>& changed, std::size_t row_nbytes, std::size_t threads) {
    auto* to = list_of<std::uint8_t>(out, "out");
    const auto* from = list_of<const std::uint8_t>(source, "source");
    const std::size_t size = source.shape(0);
    const std::size_t padded_size = (size + kLineBytes - 1) / kLineBytes * kLineBytes;
    require(out.shape(0) == padded_size, "out has ", out.shape(0), " bytes, must have ", padded_size);
    if (!changed) {
        const nb::gil_scoped_release release;
        return copy_lines(to, from, size, first_line, threads);
    }
    const auto* words = list_of<const std::uint64_t>(*changed, "changed");
    require(row_nbytes > 0 && size % row_nbytes == 0, "source has ", size, " bytes, which are not rows of ",
            row_nbytes);
    require(changed->shape(0) * 64 >= size / row_nbytes, "changed has ", changed->shape(0), " words for ",
            size / row_nbytes, " rows");
    const nb::gil_scoped_release release;
    return copy_changed_lines(to, from, size, first_line, words, row_nbytes, threads);
}

void bind_rows(nb::module_& module) {
    module.def("union_rows", &union_of, "out"_a, "lists"_a, nb::kw_only(), "first"_a, "last"_a,
               R"(Writes to out, uint32 [n], what is in any of the lists and from `first` to below `last`, ascending.

lists: uint16 or uint32 [m], strictly ascending; n is at least the sum of all m. Returns how many there are.)");
    module.def("copy_rows", &copy_list, "out"_a, "source"_a, "rows"_a, nb::kw_only(), "but_not"_a = nb::none(),
               "first_row"_a = 0, "threads"_a = 1,
               R"(Copies rows of a table, float32 [R, C]: those of `rows` that are not in `but_not`.

Both are uint16 or uint32 [m], strictly ascending, numbered so that the first row of the table is `first_row`.)");
    module.def(
        "mark_rows",
        [](const OutArray& words, const Array& rows, std::size_t first_row) {
            auto* to = list_of<std::uint64_t>(words, "words");
            const Numbers list = numbers(rows, "rows");
            const nb::gil_scoped_release release;
            mark_rows(to, words.shape(0), list, first_row);
        },
        "words"_a, "rows"_a, nb::kw_only(), "first_row"_a = 0,
        R"(Sets a bit for each of `rows` (as in `copy_rows`): bit r % 64 of words[r // 64], uint64 [R / 64].)");
    module.def(
        "sum_of_lines",
        [](const Array& data, std::uint64_t first_line, std::size_t threads) {
            const auto* bytes = list_of<const std::uint8_t>(data, "data");
            const nb::gil_scoped_release release;
            return sum_of_lines(bytes, data.shape(0), first_line, threads);
        },
        "data"_a, nb::kw_only(), "first_line"_a, "threads"_a = 1,
        R"(A sum of uint8 [n] by lines of 64 bytes, of which the first one has the number `first_line`.

What it is and what it notices: pool/kernels/cpu/memory/lines.h. A last line that is not whole goes on with zeros.)");
    module.def("copy_lines", &copy_bytes, "out"_a, "source"_a, nb::kw_only(), "first_line"_a, "changed"_a = nb::none(),
               "row_nbytes"_a = 0, "threads"_a = 1,
               R"(Copies source, uint8 [n], to out, uint8 [n rounded up to lines], and returns its `sum_of_lines`.

With `changed`, uint64 [rows / 64] as `mark_rows` sets it, only lines that hold a part of a marked row of `row_nbytes`
bytes are copied, and by how much the sum changes (modulo 2^64) is returned.)");
}

void bind_heap(nb::module_& module) {
    module.def("keep_freed_memory", &keep_freed_memory,
               R"(Tells malloc to keep large blocks when they are freed: no page faults for the next step's activations.

For a process that allocates the same sizes step after step, before its first large tensor. The process
keeps its high-water mark. The heap's first 1.9 GB come in huge pages, where the system allows them. False
where the C library has no such setting.)");
    module.def("return_free_memory", &return_free_memory,
               R"(Gives back what is free in the heap now, but for its end, although `keep_freed_memory` was called.

For a process whose beginning took more than its steps do.)");
}

}  // namespace

void bind_memory(nb::module_& module) {
    bind_average(module);
    bind_rounding(module);
    bind_rows(module);
    bind_heap(module);
}

}  // namespace sparsepool
