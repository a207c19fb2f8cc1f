#include "average/average.h"

#include "arrays/check_lists.h"
#include "average/kernels.h"
#include "common/parallel.h"
#include "common/simd.h"

namespace sparsepool {
namespace {

constexpr std::size_t kUnit = 4096;  // floats: a thread's share is whole pages

}  // namespace

void add_to_average(float* average, const float* weights, std::size_t size, float rate, std::size_t threads) {
    check_threads(threads);
    const auto& level = simd::kernels<AverageKernels>();
    run_parts(threads, [&](std::size_t part) {
        level.add(average, weights, rate, border(size, kUnit, part, threads), border(size, kUnit, part + 1, threads));
    });
}

}  // namespace sparsepool
