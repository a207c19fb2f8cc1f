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

constexpr std::size_t kAhead = 12;  // rows that are fetched before they are copied

void check_ascending(const Numbers& list) {
    require(simd::kernels<ListKernels>().ascending(list, true), "rows are not strictly ascending");
}

// Whole cache lines without a call.
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

std::size_t union_rows(std::uint32_t* out, const std::vector<Numbers>& lists, std::size_t first, std::size_t last) {
    std::vector<std::pair<std::size_t, std::size_t>> ranges;  // of each list what is not written yet
    for (const Numbers& list : lists) {
        check_ascending(list);
        ranges.emplace_back(lower_bound(list, first), lower_bound(list, last));
    }
    std::size_t count = 0;
    for (;;) {
        std::size_t next = last;
        for (std::size_t i = 0; i < lists.size(); ++i) {
            if (ranges[i].first < ranges[i].second) next = std::min<std::size_t>(next, lists[i][ranges[i].first]);
        }
        if (next == last) return count;
        for (std::size_t i = 0; i < lists.size(); ++i) {
            if (ranges[i].first < ranges[i].second && lists[i][ranges[i].first] == next) ++ranges[i].first;
        }
        out[count++] = static_cast<std::uint32_t>(next);
    }
}

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
            const std::size_t place = (list[i] - first_row) * out.columns;
            copy_row(out.data + place, from.data + place, out.columns);
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
