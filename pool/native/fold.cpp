#include "fold.h"

#include <algorithm>

#include "check.h"
#include "check_lists.h"
#include "crash_point.h"
#include "parallel.h"
#include "simd.h"

namespace sparsepool {
namespace {

constexpr std::size_t UNIT = 4096;  // floats: a thread's share of a fold is whole pages
constexpr std::size_t ROW_UNIT = 16;  // rows: whatever their length, two threads never share a cache line

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
    for (std::size_t s = 0; s < sources.size(); ++s) {
        require(level.ascending(sources[s].touched, true), "touched of source ", s, " is not strictly ascending");
    }
    const Fold how{out.data, accumulate ? Start::OUT : Start::ZERO, scale,
                   !accumulate && worth_streaming(out.data, out.rows, out.columns)};
    // scratch of every part, made here: a part must not throw
    std::vector<std::size_t> cursors(threads * sources.size());
    std::vector<const float*> found(threads * sources.size());
    const auto rows = [&](std::size_t begin, std::size_t end) {
        run_parts(threads, [&](std::size_t part) {
            const Block block{begin + border(end - begin, ROW_UNIT, part, threads),
                              begin + border(end - begin, ROW_UNIT, part + 1, threads), 0, out.columns};
            level.fold_rows(how, sources.data(), sources.size(), first_row, out.columns, block,
                            cursors.data() + part * sources.size(), found.data() + part * sources.size());
        });
    };
    const std::size_t middle = border(out.rows, ROW_UNIT, 1, 2);
    rows(0, middle);
    crash_point("coordinator.mid_fold");
    rows(middle, out.rows);
}

}  // namespace sparsepool
