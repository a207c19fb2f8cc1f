#include "sparse/sparse_layer.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/lists.h"
#include "common/check.h"
#include "common/crash_point.h"
#include "common/parallel.h"
#include "common/simd.h"
#include "sparse/visiting_order.h"

namespace sparsepool {
namespace {

constexpr std::size_t kLine = 16;           // floats of a cache line: threads never share one
constexpr std::size_t kThreadColumns = 64;  // fewer columns a thread, and reading the lists outweighs the sums

Numbers subrange(const Numbers& numbers, std::size_t first, std::size_t last) {
    const std::size_t width = numbers.wide ? sizeof(std::uint32_t) : sizeof(std::uint16_t);
    return {static_cast<const char*>(numbers.data) + first * width, last - first, numbers.wide};
}

// In how many parts the columns are cut: the largest divisor of `threads` that leaves each part enough columns. The
// rows are cut in threads / parts.
std::size_t column_parts(std::size_t threads, std::size_t columns) {
    std::size_t parts = std::min(threads, std::max<std::size_t>(1, columns / kThreadColumns));
    while (threads % parts != 0) --parts;
    return parts;
}

// The row where a part begins. Parts have about as many numbers in their lists; with a visiting order, as many rows.
std::size_t row_border(const RowSums& sums, std::size_t first, std::size_t last, std::size_t part, std::size_t parts) {
    if (part == 0) return first;
    if (part == parts) return last;
    if (sums.order != nullptr) return first + (last - first) * part / parts;
    const std::uint64_t begin = sums.offsets[first];
    const std::uint64_t numbers = sums.offsets[last] - begin;
    const auto offset = static_cast<std::uint32_t>(begin + numbers * part / parts);
    const std::uint32_t* row = std::lower_bound(sums.offsets + first, sums.offsets + last, offset);
    return static_cast<std::size_t>(row - sums.offsets);
}

// Computes the sums of lists [first, last), each thread a block of rows and columns. Returns what row_sums returns.
bool compute_row_sums(const RowSums& sums, std::size_t first, std::size_t last, std::size_t threads) {
    if (first == last || sums.columns == 0) return true;
    const auto& kernels = simd::kernels<SparseKernels>();
    const std::size_t num_column_parts = column_parts(threads, sums.columns);
    const std::size_t num_row_parts = threads / num_column_parts;
    std::atomic<bool> is_finite{true};
    run_parts(threads, [&](std::size_t part) {
        const std::size_t row_part = part / num_column_parts;
        const std::size_t column_part = part % num_column_parts;
        const Block block{
            .first_row = row_border(sums, first, last, row_part, num_row_parts),
            .last_row = row_border(sums, first, last, row_part + 1, num_row_parts),
            .first_column = border(sums.columns, kLine, column_part, num_column_parts),
            .last_column = border(sums.columns, kLine, column_part + 1, num_column_parts),
        };
        if (!kernels.row_sums(sums, block)) is_finite = false;
    });
    return is_finite;
}

constexpr std::size_t kNearCache = std::size_t{1} << 20;  // bytes: a smaller table needs no visiting order
constexpr std::size_t kOrderedColumns = 64;  // nor do shorter rows: the order would cost more than it saves
constexpr std::size_t kBackwardSlab = 512;   // columns of grad_out visited at a time: measured

bool exceeds_near_cache(ConstMatrix matrix) { return matrix.rows * matrix.columns * sizeof(float) > kNearCache; }

// Lists [first, last) of a backward pass.
void check_lists(const TouchedLists& lists, std::size_t first, std::size_t last, std::size_t table_rows,
                 std::size_t num_bags) {
    const auto& [touched, offsets, bags, values] = lists;
    require(offsets.size == touched.size + 1, "touched_offsets has ", offsets.size,
            " numbers, but must have one more than the ", touched.size, " of touched");
    if (first == last) return;
    const Numbers rows = subrange(touched, first, last);
    require(simd::kernels<ListKernels>().ascending(rows, true), "touched is not strictly ascending between ", first,
            " and ", last);
    require(rows[rows.size - 1] < table_rows, "touched holds ", rows[rows.size - 1], ", but there are ", table_rows,
            " rows in grad_weight");
    check_offsets("touched_offsets", offsets, first, last, bags.size);
    check_below("bags", subrange(bags, offsets.data[first], offsets.data[last]), num_bags, "rows in grad_out");
}

}  // namespace

// Large tables of long rows are read in visiting order; rows of large tables with short rows are prefetched.
void sparse_forward(ConstMatrix weight, const float* bias, Offsets offsets, Numbers features, const float* values,
                    Matrix out, std::size_t threads) {
    check_threads(threads);
    check_bags(offsets, features);
    const std::size_t bags = offsets.size - 1;
    require(out.rows == bags && out.columns == weight.columns, "out is [", out.rows, ", ", out.columns,
            "], but offsets and weight make it [", bags, ", ", weight.columns, "]");
    check_below("features", features, weight.rows, "rows in weight");
    const bool is_narrow = weight.columns < kOrderedColumns;
    const bool is_far = exceeds_near_cache(weight);
    RowSums sums{.table = weight.data,
                 .start = bias,
                 .offsets = offsets.data,
                 .index = features,
                 .values = values,
                 .out_rows = {},
                 .order = nullptr,
                 .out = out.data,
                 .columns = out.columns,
                 .slab = out.columns,
                 .prefetch = is_narrow && is_far,
                 .stream = should_stream(out.data, out.rows, out.columns)};
    std::vector<std::uint32_t> order;
    if (!is_narrow && is_far) {
        order = visiting_order(offsets, features, weight.rows);
        sums.order = order.data();
    }
    compute_row_sums(sums, 0, bags, threads);
}

bool sparse_backward_rows(const TouchedLists& lists, ConstMatrix grad_out, Matrix grad_weight, std::size_t first,
                          std::size_t last, std::size_t threads) {
    check_threads(threads);
    require(first <= last && last <= lists.touched.size, "rows ", first, " to ", last, " are not within the ",
            lists.touched.size, " touched ones");
    require(grad_weight.columns == grad_out.columns, "grad_weight has ", grad_weight.columns, " columns and grad_out ",
            grad_out.columns);
    check_lists(lists, first, last, grad_weight.rows, grad_out.rows);
    if (first == last) return true;
    const RowSums sums{.table = grad_out.data,
                       .start = nullptr,
                       .offsets = lists.offsets.data,
                       .index = lists.bags,
                       .values = lists.values,
                       .out_rows = lists.touched,
                       .order = nullptr,
                       .out = grad_weight.data,
                       .columns = grad_weight.columns,
                       .slab = kBackwardSlab,
                       .prefetch = grad_out.columns >= kOrderedColumns || exceeds_near_cache(grad_out),
                       .stream = should_stream(grad_weight.data, last - first, grad_weight.columns)};
    const std::size_t middle = first + (last - first) / 2;
    const bool first_is_finite = compute_row_sums(sums, first, middle, threads);
    crash_point("worker.mid_table");
    const bool second_is_finite = compute_row_sums(sums, middle, last, threads);
    return first_is_finite && second_is_finite;
}

// Each thread sums a share of the columns.
void column_sum(ConstMatrix matrix, float* out, std::size_t threads) {
    check_threads(threads);
    if (matrix.rows == 0) {
        std::fill_n(out, matrix.columns, 0.0F);
        return;
    }
    const auto& kernels = simd::kernels<SparseKernels>();
    const std::size_t parts = std::min(threads, std::max<std::size_t>(1, matrix.columns / kLine));
    run_parts(parts, [&](std::size_t part) {
        kernels.column_sums(matrix.data, out, matrix.columns,
                            {
                                .first_row = 0,
                                .last_row = matrix.rows,
                                .first_column = border(matrix.columns, kLine, part, parts),
                                .last_column = border(matrix.columns, kLine, part + 1, parts),
                            });
    });
}

}  // namespace sparsepool
