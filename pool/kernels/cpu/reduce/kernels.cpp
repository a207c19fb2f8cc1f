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

// Of sources that are rows, 0 is added to the sum, so that -0.0 becomes 0.0: a row that a source did not touch adds
// nothing, and it must not matter which of the others stood for zero.
template <std::size_t kWide>
inline void scale_sums(const Reduction& reduction, bool rows, Vec (&total)[kWide]) {
    UNROLL
    for (std::size_t v = 0; v < kWide; ++v) {
        if (rows) total[v] = Vec::zero() + total[v];
        if (reduction.scale != 1.0F) total[v] = total[v] * Vec::all(reduction.scale);
    }
}

template <std::size_t kWide, class Sources, class Numbers>
void reduce_registers(Sources count, Numbers numbers, const Reduction& reduction, const Addends& from, bool rows,
                      float* out, std::size_t i) {
    Vec total[kWide];
    const auto load = [=](const Source& source, std::size_t v) { return numbers.load(source, i + v * Vec::kWidth); };
    tree_sum(count, from, load, total);
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

template <class Numbers>
void reduce_part(Numbers numbers, const Reduction& reduction, const Addends& from, bool rows, float* out, std::size_t i,
                 std::size_t n) {
    Vec total[1];
    const auto load = [=](const Source& source, std::size_t) { return numbers.load_part(source, i, n); };
    tree_sum(AnyCount{}, from, load, total);
    scale_sums(reduction, rows, total);
    total[0].store_part(out + i, n);
}

// Numbers [i, last) of `out` and of the sources.
template <class Numbers>
void reduce_span(Numbers numbers, const Reduction& reduction, const Addends& from, bool rows, float* out, std::size_t i,
                 std::size_t last) {
    constexpr std::size_t kBlock = 8;
    by_count(from, [&](auto count) {
        for (; i + kBlock * Vec::kWidth <= last; i += kBlock * Vec::kWidth) {
            reduce_registers<kBlock>(count, numbers, reduction, from, rows, out, i);
        }
        for (; i + Vec::kWidth <= last; i += Vec::kWidth)
            reduce_registers<1>(count, numbers, reduction, from, rows, out, i);
    });
    if (i < last) reduce_part(numbers, reduction, from, rows, out, i, last - i);
}

void reduce_dense(const Reduction& reduction, const Addends& from, Held held, std::size_t first, std::size_t last) {
    by_held(held, [&](auto numbers) { reduce_span(numbers, reduction, from, false, reduction.out, first, last); });
    fence();
}

// x - x is 0 for every finite x and NaN for others, and a sum keeps a NaN.
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
    float rest = 0.0F;
    for (; i < size; ++i) {
        to[i] = from[i];
        rest += from[i] - from[i];
    }
    float lanes[Vec::kWidth];
    (sums[0] + sums[1] + (sums[2] + sums[3])).store(lanes);
    for (const float lane : lanes) rest += lane;
    return rest == 0.0F;
}

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

void reduce_rows(const Reduction& reduction, const RowSources& sources, std::size_t columns, const Block& block) {
    by_held(sources.held, [&](auto numbers) {
        const auto one_row = [&](std::size_t r, const Addends& from) INLINED {
            float* out = reduction.out + r * columns;
            const bool there = from.count == 1 && from.sources[0].numbers == out && reduction.scale == 1.0F;
            if (!there) reduce_span(numbers, reduction, from, true, out, 0, columns);
        };
        if (reduction.touched_only) {
            const auto soon = [&](std::size_t r) INLINED { __builtin_prefetch(reduction.out + r * columns, 1); };
            each_touched_row(sources, columns, block, soon, one_row);
        } else {
            each_row(sources, columns, block, one_row);
        }
    });
    fence();
}

}  // namespace
}  // namespace sparsepool

const sparsepool::ReduceKernels sparsepool::ReduceKernels::SPARSEPOOL_ISA{
    sparsepool::reduce_dense, sparsepool::reduce_rows, sparsepool::copy_checked, sparsepool::square_chunks};
