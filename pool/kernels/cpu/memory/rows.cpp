#include "memory/rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/lists.h"
#include "common/check.h"
#include "common/parallel.h"
#include "common/simd.h"

namespace sparsepool {
namespace {

constexpr std::size_t kAhead = 12;  // rows between a prefetch and its use

void check_ascending(const Numbers& list) {
    require(simd::kernels<ListKernels>().ascending(list, true), "rows are not strictly ascending");
}

// Copies a row. Rows of full cache lines are copied without a call.
void copy_row(float* to, const float* from, std::size_t columns) {
    constexpr std::size_t kLine = 16;
    if (columns % kLine != 0) {
        std::memcpy(to, from, columns * sizeof(float));
        return;
    }
    for (std::size_t k = 0; k < columns; k += kLine) std::memcpy(to + k, from + k, kLine * sizeof(float));
}

void check_rows(const Numbers& list, std::size_t first_row, std::size_t rows) {
    check_ascending(list);
    require(list.size == 0 || (list[0] >= first_row && list[list.size - 1] - first_row < rows), "rows are not within ",
            first_row, " to below ", first_row + rows);
}

}  // namespace

// Merges the lists: repeatedly writes the least row and advances the cursors at it.
std::size_t union_rows(std::uint32_t* out, const std::vector<Numbers>& lists, std::size_t first, std::size_t last) {
    struct Cursor {
        const Numbers& list;
        std::size_t index, end;

        [[nodiscard]] bool is_at_end() const { return index == end; }
        [[nodiscard]] std::size_t row() const { return list[index]; }
    };
    std::vector<Cursor> cursors;
    for (const Numbers& list : lists) {
        check_ascending(list);
        cursors.push_back({list, lower_bound(list, first), lower_bound(list, last)});
    }
    std::size_t count = 0;
    while (true) {
        std::size_t next = last;  // the least row that is not written yet
        for (const Cursor& cursor : cursors) {
            if (!cursor.is_at_end()) next = std::min(next, cursor.row());
        }
        if (next == last) return count;
        for (Cursor& cursor : cursors) {
            if (!cursor.is_at_end() && cursor.row() == next) ++cursor.index;
        }
        out[count] = static_cast<std::uint32_t>(next);
        ++count;
    }
}

// Each thread copies a share of the list, skips rows of `but_not`, and prefetches rows ahead.
void copy_rows(Matrix out, ConstMatrix from, const Numbers& list, const Numbers& but_not, std::size_t first_row,
               std::size_t threads) {
    check_threads(threads);
    check_rows(list, first_row, out.rows);
    check_ascending(but_not);
    run_parts(threads, [&](std::size_t part) {
        const std::size_t begin = border(list.size, 1, part, threads);
        const std::size_t end = border(list.size, 1, part + 1, threads);
        std::size_t skipped = begin == end ? 0 : lower_bound(but_not, list[begin]);
        for (std::size_t i = begin; i < end; ++i) {
            if (i + kAhead < end) {
                const std::size_t ahead = (list[i + kAhead] - first_row) * out.columns;
                __builtin_prefetch(from.data + ahead);
                __builtin_prefetch(out.data + ahead, 1);
            }
            while (skipped < but_not.size && but_not[skipped] < list[i]) ++skipped;
            if (skipped < but_not.size && but_not[skipped] == list[i]) continue;
            const std::size_t row = (list[i] - first_row) * out.columns;
            copy_row(out.data + row, from.data + row, out.columns);
        }
    });
}

void mark_rows(std::uint64_t* words, std::size_t size, const Numbers& list, std::size_t first_row) {
    check_rows(list, first_row, size * 64);
    for (std::size_t i = 0; i < list.size; ++i) {
        const std::size_t row = list[i] - first_row;
        words[row / 64] |= std::uint64_t{1} << row % 64;
    }
}

}  // namespace sparsepool
