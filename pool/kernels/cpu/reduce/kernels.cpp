#include "reduce/kernels.h"

#include <algorithm>

#include "base/vec.h"
#include "common/isa.h"
#include "kernels/rules.cuh"
#include "reduce/touched_rows.h"
#include "reduce/tree_sum.h"

// Sums of several sources: dense, or by the rows that each touched (reduce.h).
namespace sparsepool {
namespace {

// Scales sums. To sums of rows 0 is added, which turns -0.0 into 0.0: a row that a source did not touch counts as
// zeros, whose signs must not matter.
template <std::size_t kWide>
inline void scale_sums(const Reduction& reduction, bool rows, Vec (&total)[kWide]) {
    UNROLL
    for (std::size_t v = 0; v < kWide; ++v) {
        if (rows) total[v] = Vec::zero() + total[v];
        if (reduction.scale != 1.0F) total[v] = total[v] * Vec::all(reduction.scale);
    }
}

// Writes kWide vectors of the sum, from number i on.
template <std::size_t kWide, class Tree, class Loader>
void reduce_registers(Tree tree, Loader loader, const Reduction& reduction, const TreeSources& from, bool rows,
                      float* out, std::size_t i) {
    Vec total[kWide];
    const auto load = [=](const Source& source, std::size_t v) { return loader.load(source, i + v * Vec::kWidth); };
    tree_sum(tree, from, load, total);
    scale_sums(reduction, rows, total);
    UNROLL
    for (std::size_t v = 0; v < kWide; ++v) {
        float* to = out + i + v * Vec::kWidth;
        if (reduction.stream) {
            total[v].stream(to);
        } else {
            total[v].store(to);
        }
    }
}

// Writes n numbers of the sum, less than a vector, from number i on.
template <class Loader>
void reduce_part(Loader loader, const Reduction& reduction, const TreeSources& from, bool rows, float* out,
                 std::size_t i, std::size_t n) {
    Vec total[1];
    const auto load = [=](const Source& source, std::size_t) { return loader.load_part(source, i, n); };
    tree_sum(AnyTree{}, from, load, total);
    scale_sums(reduction, rows, total);
    total[0].store_part(out + i, n);
}

// Writes numbers i .. last - 1 of the sum. `rows`: the sources are rows of a table.
template <class Loader>
void reduce_span(Loader loader, const Reduction& reduction, const TreeSources& from, bool rows, float* out,
                 std::size_t i, std::size_t last) {
    constexpr std::size_t kBlock = 8;
    dispatch_tree(from, [&](auto tree) {
        for (; i + kBlock * Vec::kWidth <= last; i += kBlock * Vec::kWidth) {
            reduce_registers<kBlock>(tree, loader, reduction, from, rows, out, i);
        }
        for (; i + Vec::kWidth <= last; i += Vec::kWidth)
            reduce_registers<1>(tree, loader, reduction, from, rows, out, i);
    });
    if (i < last) reduce_part(loader, reduction, from, rows, out, i, last - i);
}

void reduce_dense(const Reduction& reduction, const TreeSources& from, SourceType type, std::size_t first,
                  std::size_t last) {
    dispatch_type(type, [&](auto loader) { reduce_span(loader, reduction, from, false, reduction.out, first, last); });
    fence();
}

// Finds out along the way whether all numbers are finite: x - x is 0 for a finite x, else NaN, and a sum keeps a NaN.
bool copy_checked(const float* from, float* to, std::size_t size) {
    constexpr std::size_t kSums = 4;
    Vec sums[kSums] = {Vec::zero(), Vec::zero(), Vec::zero(), Vec::zero()};
    std::size_t i = 0;
    for (; i + kSums * Vec::kWidth <= size; i += kSums * Vec::kWidth) {
        UNROLL
        for (std::size_t s = 0; s < kSums; ++s) {
            const Vec x = Vec::load(from + i + s * Vec::kWidth);
            x.store(to + i + s * Vec::kWidth);
            sums[s] = sums[s] + (x - x);
        }
    }
    float total = 0.0F;
    for (; i < size; ++i) {
        to[i] = from[i];
        total += from[i] - from[i];
    }
    float lanes[Vec::kWidth];
    (sums[0] + sums[1] + (sums[2] + sums[3])).store(lanes);
    for (const float lane : lanes) total += lane;
    return total == 0.0F;
}

// sums[chunk] = the sum of the chunk's squares, in double precision.
void square_chunks(const float* from, std::size_t size, double* sums, std::size_t first, std::size_t last) {
    for (std::size_t chunk = first; chunk < last; ++chunk) {
        const std::size_t begin = chunk * rules::kNormChunk;
        const auto count = static_cast<unsigned>(std::min<std::size_t>(rules::kNormChunk, size - begin));
        const auto square = [numbers = from + begin](unsigned i) {
            const double number = numbers[i];
            return number * number;
        };
        sums[chunk] = rules::sum_of_chunk(square, count);
    }
}

// Reduces the rows of a block. A row whose only source is the output itself is left as it is.
void reduce_rows(const Reduction& reduction, const RowSources& sources, std::size_t columns, const Block& block) {
    dispatch_type(sources.type, [&](auto loader) {
        const auto reduce_row = [&](std::size_t r, const TreeSources& from) INLINED {
            float* out = reduction.out + r * columns;
            const bool is_done = from.count == 1 && from.sources[0].numbers == out && reduction.scale == 1.0F;
            if (!is_done) reduce_span(loader, reduction, from, true, out, 0, columns);
        };
        if (reduction.touched_only) {
            const auto prefetch = [&](std::size_t r) INLINED { __builtin_prefetch(reduction.out + r * columns, 1); };
            visit_touched_rows(sources, columns, block, prefetch, reduce_row);
        } else {
            visit_all_rows(sources, columns, block, reduce_row);
        }
    });
    fence();
}

}  // namespace
}  // namespace sparsepool

const sparsepool::ReduceKernels sparsepool::ReduceKernels::SPARSEPOOL_ISA{
    sparsepool::reduce_dense, sparsepool::reduce_rows, sparsepool::copy_checked, sparsepool::square_chunks};
