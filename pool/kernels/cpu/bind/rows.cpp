#include "rows/rows.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bind/arrays.h"
#include "bind/bind.h"
#include "rows/lines.h"

namespace nb = nanobind;
namespace sparsepool {
namespace {

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
    std::size_t most = 0;
    for (const Array& list : lists) {
        from.push_back(numbers(list, "list"));
        most += from.back().size;
    }
    require(out.shape(0) >= most, "out has ", out.shape(0), " numbers, must have ", most);
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
    const std::size_t whole = (size + kLineBytes - 1) / kLineBytes * kLineBytes;
    require(out.shape(0) == whole, "out has ", out.shape(0), " bytes, must have ", whole);
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

}  // namespace

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

What it is and what it notices: pool/kernels/cpu/rows/lines.h. A last line that is not whole goes on with zeros.)");
    module.def("copy_lines", &copy_bytes, "out"_a, "source"_a, nb::kw_only(), "first_line"_a, "changed"_a = nb::none(),
               "row_nbytes"_a = 0, "threads"_a = 1,
               R"(Copies source, uint8 [n], to out, uint8 [n rounded up to lines], and returns its `sum_of_lines`.

With `changed`, uint64 [rows / 64] as `mark_rows` sets it, only lines that hold a part of a marked row of `row_nbytes`
bytes are copied, and by how much the sum changes (modulo 2^64) is returned.)");
}

}  // namespace sparsepool
