#include "fold.h"

#include <algorithm>

#include "check.h"
#include "check_lists.h"
#include "crash_point.h"
#include "parallel.h"
#include "row_walk.h"
#include "simd.h"

namespace sparsepool {
namespace {

constexpr std::size_t UNIT = 4096;  // floats: a thread's share of a fold is whole pages

}  // namespace

void fold(float* out, std::size_t size, const std::vector<const float*>& sources, bool accumulate, float scale,
          std::size_t threads) {
    check_threads(threads);
    const Kernels& level = kernels();
    const Start start = accumulate ? Start::OUT : sources.empty() ? Start::ZERO : Start::FIRST_SOURCE;
    const Fold how{out, start, scale, !accumulate && worth_streaming(out, 1, size / 16 * 16)};
    run_parts(threads, [&](std::size_t part) {
        level.fold(how, sources.data(), sources.size(), border(size, UNIT, part, threads),
                   border(size, UNIT, part + 1, threads));
    });
}

void fold_rows(Matrix out, const std::vector<RowSource>& sources, bool accumulate, float scale,
               std::size_t first_row, std::size_t threads) {
    check_threads(threads);
    const Kernels& level = kernels();
    check_touched(sources);
    const Fold how{out.data, accumulate ? Start::OUT : Start::ZERO, scale,
                   !accumulate && worth_streaming(out.data, out.rows, out.columns)};
    RowWalk walk(sources, first_row, threads);
    const auto rows = [&](std::size_t begin, std::size_t end) {
        run_parts(threads, [&](std::size_t part) {
            level.fold_rows(how, walk.of(part), out.columns, walk.block(part, begin, end, out.columns));
        });
    };
    const std::size_t middle = border(out.rows, RowWalk::UNIT, 1, 2);
    rows(0, middle);
    crash_point("coordinator.mid_fold");
    rows(middle, out.rows);
}

bool copy_checked(const float* from, float* to, std::size_t size) { return kernels().copy_checked(from, to, size); }

}  // namespace sparsepool
