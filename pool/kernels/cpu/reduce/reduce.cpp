#include "reduce/reduce.h"

#include <algorithm>

#include "base/lists.h"
#include "common/check.h"
#include "common/crash_point.h"
#include "common/parallel.h"
#include "common/simd.h"
#include "kernels/rules.cuh"
#include "reduce/sources.h"

namespace sparsepool {
namespace {

constexpr std::size_t kUnit = 4096;  // floats: a thread's share is full pages

}  // namespace

// Each thread reduces a share of full pages. Outputs that exceed the caches are stored past them.
void reduce(float* out, std::size_t size, const Sources& sources, float scale, std::size_t threads) {
    check_threads(threads);
    const auto& kernels = simd::kernels<ReduceKernels>();
    const JoinPlan joins(sources);
    const bool is_in_place = std::any_of(sources.all.begin(), sources.all.end(),
                                         [&](const Source& source) { return source.numbers == out; });
    const Reduction reduction{out, scale, false, !is_in_place && should_stream(out, 1, size / 16 * 16)};
    run_parts(threads, [&](std::size_t part) {
        kernels.reduce(reduction, joins.with(sources), joins.source_type(), border(size, kUnit, part, threads),
                       border(size, kUnit, part + 1, threads));
    });
}

// Each thread reduces two blocks of rows, with a crash point in between.
void reduce_rows(Matrix out, const std::vector<RowSource>& sources, float scale, std::size_t first_row,
                 bool touched_only, std::size_t threads) {
    check_threads(threads);
    const auto& kernels = simd::kernels<ReduceKernels>();
    const bool is_in_place = std::any_of(sources.begin(), sources.end(),
                                         [&](const RowSource& source) { return source.rows.numbers == out.data; });
    const Reduction reduction{out.data, scale, touched_only,
                              !is_in_place && should_stream(out.data, out.rows, out.columns)};
    RowPartition partition(sources, first_row, threads);
    run_parts(threads, [&](std::size_t part) {
        const auto [first_block, second_block] = partition.split_part(part, out.rows, out.columns, touched_only);
        kernels.reduce_rows(reduction, partition.sources_of(part), out.columns, first_block);
        if (part == 0) crash_point("coordinator.mid_fold");
        kernels.reduce_rows(reduction, partition.sources_of(part), out.columns, second_block);
    });
}

// Sums chunks in parallel, then chunks of the sums, until one sum is left.
double sum_of_squares(const float* from, std::size_t size, std::size_t threads) {
    check_threads(threads);
    const auto& kernels = simd::kernels<ReduceKernels>();
    constexpr std::size_t kChunk = rules::kNormChunk;
    std::vector<double> sums(std::max<std::size_t>(1, (size + kChunk - 1) / kChunk));
    run_parts(threads, [&](std::size_t part) {
        kernels.square_chunks(from, size, sums.data(), border(sums.size(), 1, part, threads),
                              border(sums.size(), 1, part + 1, threads));
    });
    while (sums.size() > 1) {  // sums[c] = the sum of chunk c of the sums
        for (std::size_t begin = 0; begin < sums.size(); begin += kChunk) {
            const auto count = static_cast<unsigned>(std::min(kChunk, sums.size() - begin));
            sums[begin / kChunk] = rules::sum_of_chunk([&](unsigned i) { return sums[begin + i]; }, count);
        }
        sums.resize((sums.size() + kChunk - 1) / kChunk);
    }
    return sums[0];
}

bool copy_checked(const float* from, float* to, std::size_t size) {
    return simd::kernels<ReduceKernels>().copy_checked(from, to, size);
}

}  // namespace sparsepool
