#include "sparse/sparse_plan.h"

#include <algorithm>

#include "base/lists.h"
#include "base/matrix.h"
#include "common/check.h"
#include "common/crash_point.h"
#include "common/parallel.h"
#include "common/simd.h"
#include "sparse/visiting_order.h"

namespace sparsepool {

SparsePlan::SparsePlan(Offsets offsets, Numbers features, std::size_t num_features) : num_features_(num_features) {
    check_bags(offsets, features);
    check_below("features", features, num_features, "rows in weight");
    bags_ = offsets.size - 1;
    arrays_ = build_plan(offsets, features, num_features, visiting_order(offsets, features, num_features));
}

PlanView SparsePlan::view() const {
    return {.tiles = arrays_.tiles.data(),
            .num_tiles = arrays_.tiles.size(),
            .chunks = arrays_.chunks.data(),
            .num_chunks = arrays_.chunks.size(),
            .bags = arrays_.bags.data(),
            .rows = arrays_.rows.data(),
            .seen = arrays_.seen.data(),
            .grouped = arrays_.grouped.data(),
            .bag_quads = arrays_.bag_quads.data(),
            .bag_terms = arrays_.bag_terms.data(),
            .row_quads = arrays_.row_quads.data(),
            .row_terms = arrays_.row_terms.data()};
}

namespace {

constexpr std::size_t kColumnUnit = 32;  // threads' shares of the columns are multiples of it

// Calls run(first column, last column, scratch memory) for each thread's share of the columns.
template <class Run>
void run_by_columns(std::size_t columns, std::size_t threads, std::size_t scratch_size, const Run& run) {
    const std::size_t parts = std::min(threads, (columns + kColumnUnit - 1) / kColumnUnit);
    const Floats scratch(parts * scratch_size);
    run_parts(parts, [&](std::size_t part) {
        run(border(columns, kColumnUnit, part, parts), border(columns, kColumnUnit, part + 1, parts),
            scratch.data() + part * scratch_size);
    });
}

}  // namespace

void SparsePlan::forward(ConstMatrix weight, const float* bias, Matrix out, std::size_t threads) const {
    check_threads(threads);
    require(is_worthwhile(), "this plan is not worth its use, and empty");
    require(weight.rows == num_features_, "weight has ", weight.rows, " rows, but the plan was made for ",
            num_features_);
    require(out.rows == bags_ && out.columns == weight.columns, "out is [", out.rows, ", ", out.columns,
            "], but plan and weight make it [", bags_, ", ", weight.columns, "]");
    const auto& kernels = simd::kernels<SparseKernels>();
    const PlanSums sums{weight.data, bias, out.data, out.columns, should_stream(out.data, out.rows, out.columns),
                        nullptr};
    run_by_columns(out.columns, threads, arrays_.max_slab_rows * PlanView::kSlab,
                   [&](std::size_t first, std::size_t last, float* scratch) {
                       kernels.plan_forward(view(), sums, first, last, scratch);
                   });
}

// The last tile that has a row below `row`, and all before it.
std::size_t SparsePlan::tiles_until(std::size_t row) const {
    const auto has_row_below = [&](const PlanTile& tile) {
        const auto begin = arrays_.rows.begin() + tile.first_row;
        return std::any_of(begin, begin + tile.rows, [&](std::uint32_t tile_row) { return tile_row < row; });
    };
    std::size_t tiles = num_tiles();
    while (tiles > 0 && !has_row_below(arrays_.tiles[tiles - 1])) --tiles;
    return tiles;
}

void SparsePlan::backward(ConstMatrix grad_out, Matrix grad_weight, float* column_sums, std::size_t first_tile,
                          std::size_t last_tile, std::size_t threads) const {
    check_threads(threads);
    require(is_worthwhile(), "this plan is not worth its use, and empty");
    require(grad_weight.rows == num_features_, "grad_weight has ", grad_weight.rows,
            " rows, but the plan was made for ", num_features_);
    require(grad_out.rows == bags_, "grad_out has ", grad_out.rows, " rows, but the plan ", bags_, " bags");
    require(grad_weight.columns == grad_out.columns, "grad_weight has ", grad_weight.columns, " columns and grad_out ",
            grad_out.columns);
    require(first_tile <= last_tile && last_tile <= num_tiles(), "tiles ", first_tile, " to ", last_tile, " of ",
            num_tiles());
    const auto& kernels = simd::kernels<SparseKernels>();
    const PlanSums sums{grad_out.data,
                        nullptr,
                        grad_weight.data,
                        grad_weight.columns,
                        should_stream(grad_weight.data, arrays_.rows.size(), grad_weight.columns),
                        column_sums};
    if (first_tile == 0) std::fill_n(column_sums, grad_weight.columns, 0.0F);
    run_by_columns(grad_weight.columns, threads, (arrays_.max_slab_rows + 1 + PlanView::kChunk) * PlanView::kSlab,
                   [&](std::size_t first, std::size_t last, float* scratch) {
                       kernels.plan_backward(view(), sums, {first_tile, last_tile, first, last}, scratch);
                   });
    crash_point("worker.table_written");
}

}  // namespace sparsepool
