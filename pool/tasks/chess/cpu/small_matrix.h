#pragma once

#include "base/vec.h"

// Products of small matrices: many rows times a matrix, and its gradient. Row-major, leading dimensions in floats.
//
// Lanes are columns, and each output is one chain of products added in order, by multiply and add, not FMA: the
// bits are the same at every level. On a CPU whose multipliers and adders are apart that costs nothing.
namespace sparsepool {
namespace {

constexpr std::size_t kLanes = 16;                   // columns of one tile, at every level
constexpr std::size_t kVecs = kLanes / Vec::kWidth;  // their registers
constexpr std::size_t kTile = kRegisters / kVecs;    // rows of a tile (multiply) or outputs of one (accumulate)

struct Strided {
    const float* data;
    std::size_t stride;
};

// Memory that is read after a product: two streams, prefetched line by line during the product.
struct PrefetchStreams {
    const float* first = nullptr;
    const float* second = nullptr;
    std::size_t lines = 0;  // remaining cache lines of each

    INLINED void fetch() {
        if (lines > 0) {
            __builtin_prefetch(first, 0, 2);
            __builtin_prefetch(second, 0, 2);
            first += 16;
            second += 16;
            --lines;
        }
    }
};

// out[r][c] = start[c] + a[r][0] * m[0][c] + ... + a[r][depth - 1] * m[depth - 1][c] for kRows rows, kLanes columns.
template <std::size_t kRows>
void multiply_tile(Strided a, std::size_t depth, Strided m, const float* start, float* out, std::size_t out_stride,
                   PrefetchStreams& prefetch) {
    Vec total[kRows][kVecs];
    UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
        UNROLL
        for (std::size_t v = 0; v < kVecs; ++v) {
            total[r][v] = start == nullptr ? Vec::zero() : Vec::load(start + v * Vec::kWidth);
        }
    }
    for (std::size_t k = 0; k < depth; ++k) {
        prefetch.fetch();
        Vec row[kVecs];
        UNROLL
        for (std::size_t v = 0; v < kVecs; ++v) row[v] = Vec::load(m.data + k * m.stride + v * Vec::kWidth);
        UNROLL
        for (std::size_t r = 0; r < kRows; ++r) {
            const Vec factor = Vec::all(a.data[r * a.stride + k]);
            UNROLL
            for (std::size_t v = 0; v < kVecs; ++v) total[r][v] = total[r][v] + factor * row[v];
        }
    }
    UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
        UNROLL
        for (std::size_t v = 0; v < kVecs; ++v) total[r][v].store(out + r * out_stride + v * Vec::kWidth);
    }
}

// Multiplies all rows: kRows at a time, the remaining ones kRows / 2 at a time, and so on.
template <std::size_t kRows>
void multiply_rows(Strided a, std::size_t rows, std::size_t depth, Strided m, const float* start, float* out,
                   std::size_t out_stride, PrefetchStreams& prefetch) {
    std::size_t r = 0;
    for (; r + kRows <= rows; r += kRows) {
        multiply_tile<kRows>({a.data + r * a.stride, a.stride}, depth, m, start, out + r * out_stride, out_stride,
                             prefetch);
    }
    if constexpr (kRows > 1) {
        multiply_rows<kRows / 2>({a.data + r * a.stride, a.stride}, rows - r, depth, m, start, out + r * out_stride,
                                 out_stride, prefetch);
    }
}

// `columns` is a multiple of kLanes; start null: zeros.
void multiply(Strided a, std::size_t rows, std::size_t depth, Strided m, std::size_t columns, const float* start,
              float* out, std::size_t out_stride, PrefetchStreams prefetch = {}) {
    for (std::size_t c = 0; c < columns; c += kLanes) {
        multiply_rows<kTile>(a, rows, depth, {m.data + c, m.stride}, start == nullptr ? nullptr : start + c, out + c,
                             out_stride, prefetch);
    }
}

// sums[k][c] += a[0][k] * b[0][c] + a[1][k] * b[1][c] + ... over `rows`; depth is a multiple of kTile, columns of
// kLanes.
void accumulate(Strided a, Strided b, std::size_t rows, std::size_t depth, std::size_t columns, float* sums,
                std::size_t sums_stride, PrefetchStreams prefetch = {}) {
    for (std::size_t c = 0; c < columns; c += kLanes) {
        for (std::size_t k = 0; k < depth; k += kTile) {
            float* to = sums + k * sums_stride + c;
            Vec total[kTile][kVecs];
            UNROLL
            for (std::size_t i = 0; i < kTile; ++i) {
                UNROLL
                for (std::size_t v = 0; v < kVecs; ++v) total[i][v] = Vec::load(to + i * sums_stride + v * Vec::kWidth);
            }
            for (std::size_t r = 0; r < rows; ++r) {
                prefetch.fetch();
                Vec row[kVecs];
                UNROLL
                for (std::size_t v = 0; v < kVecs; ++v) row[v] = Vec::load(b.data + r * b.stride + c + v * Vec::kWidth);
                UNROLL
                for (std::size_t i = 0; i < kTile; ++i) {
                    const Vec factor = Vec::all(a.data[r * a.stride + k + i]);
                    UNROLL
                    for (std::size_t v = 0; v < kVecs; ++v) total[i][v] = total[i][v] + factor * row[v];
                }
            }
            UNROLL
            for (std::size_t i = 0; i < kTile; ++i) {
                UNROLL
                for (std::size_t v = 0; v < kVecs; ++v) total[i][v].store(to + i * sums_stride + v * Vec::kWidth);
            }
        }
    }
}

}  // namespace
}  // namespace sparsepool
