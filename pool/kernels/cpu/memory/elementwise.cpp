#include "memory/elementwise.h"

#include <atomic>

#include "base/lists.h"
#include "common/check.h"
#include "common/parallel.h"
#include "common/simd.h"
#include "memory/kernels.h"

namespace sparsepool {
namespace {

constexpr std::size_t kUnit = 4096;  // numbers: a thread's share is full pages
constexpr std::size_t kAhead = 12;   // rows between a prefetch and its use
constexpr std::size_t kLine = 16;    // floats of a cache line

}  // namespace

void add_to_average(float* average, const float* weights, std::size_t size, float rate, std::size_t threads) {
    check_threads(threads);
    const auto& kernels = simd::kernels<AverageKernels>();
    run_parts(threads, [&](std::size_t part) {
        kernels.add(average, weights, rate, border(size, kUnit, part, threads), border(size, kUnit, part + 1, threads));
    });
}

bool round_numbers(BFloat16* to, const float* from, std::size_t size, std::size_t threads) {
    check_threads(threads);
    const auto& kernels = simd::kernels<RoundingKernels>();
    std::atomic<bool> is_finite = true;
    run_parts(threads, [&](std::size_t part) {
        const std::size_t begin = border(size, kUnit, part, threads);
        if (!kernels.round(to + begin, from + begin, border(size, kUnit, part + 1, threads) - begin)) is_finite = false;
    });
    return is_finite;
}

// Each thread rounds a share of the rows, and prefetches rows ahead.
bool round_rows(BFloat16* to, ConstMatrix from, const Numbers& rows, std::size_t threads) {
    check_threads(threads);
    require(simd::kernels<ListKernels>().ascending(rows, true), "rows are not strictly ascending");
    require(rows.size == 0 || rows[rows.size - 1] < from.rows, "rows are not below ", from.rows);
    const auto& kernels = simd::kernels<RoundingKernels>();
    const std::size_t columns = from.columns;
    std::atomic<bool> is_finite = true;
    run_parts(threads, [&](std::size_t part) {
        const std::size_t last = border(rows.size, kLine, part + 1, threads);
        for (std::size_t i = border(rows.size, kLine, part, threads); i < last; ++i) {
            if (i + kAhead < last) {
                const float* row = from.data + rows[i + kAhead] * columns;
                for (std::size_t k = 0; k < columns; k += kLine) __builtin_prefetch(row + k);
            }
            if (!kernels.round(to + i * columns, from.data + rows[i] * columns, columns)) is_finite = false;
        }
    });
    return is_finite;
}

}  // namespace sparsepool
