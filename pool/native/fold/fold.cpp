#include "fold/fold.h"

#include <algorithm>

#include "arrays/check_lists.h"
#include "common/check.h"
#include "common/crash_point.h"
#include "common/parallel.h"
#include "common/simd.h"
#include "fold/row_walk.h"
#include "fold/sources.h"

namespace sparsepool {
namespace {

constexpr std::size_t kUnit = 4096;  // floats: a thread's share of a fold is whole pages

}  // namespace

void fold(float* out, std::size_t size, const Sources& sources, float scale, std::size_t threads) {
    check_threads(threads);
    const auto& level = simd::kernels<FoldKernels>();
    const Joins joins(sources);
    const bool in_place = std::find(sources.floats.begin(), sources.floats.end(), out) != sources.floats.end();
    const Fold how{out, scale, false, !in_place && worth_streaming(out, 1, size / 16 * 16)};
    run_parts(threads, [&](std::size_t part) {
        level.fold(how, joins.of(sources), border(size, kUnit, part, threads), border(size, kUnit, part + 1, threads));
    });
}

void fold_rows(Matrix out, const std::vector<RowSource>& sources, float scale, std::size_t first_row, bool touched_only,
               std::size_t threads) {
    check_threads(threads);
    const auto& level = simd::kernels<FoldKernels>();
    const bool in_place =
        std::any_of(sources.begin(), sources.end(), [&](const RowSource& source) { return source.rows == out.data; });
    const Fold how{out.data, scale, touched_only, !in_place && worth_streaming(out.data, out.rows, out.columns)};
    RowWalk walk(sources, first_row, threads);
    const auto rows = [&](std::size_t begin, std::size_t end) {
        run_parts(threads, [&](std::size_t part) {
            const Block block = touched_only ? walk.touched_block(part, begin, end, out.columns)
                                             : walk.block(part, begin, end, out.columns);
            level.fold_rows(how, walk.of(part), out.columns, block);
        });
    };
    const std::size_t middle = border(out.rows, RowWalk::kUnit, 1, 2);
    rows(0, middle);
    crash_point("coordinator.mid_fold");
    rows(middle, out.rows);
}

bool copy_checked(const float* from, float* to, std::size_t size) {
    return simd::kernels<FoldKernels>().copy_checked(from, to, size);
}

}  // namespace sparsepool
