#pragma once

#include "sparse/narrow_sums_kernel.h"

// Sums of the rows that lists name (sparse_layer.h), for rows of any length.
namespace sparsepool {
namespace {

constexpr std::size_t kAhead = 16;  // rows between a prefetch and its use

template <std::size_t kCount>
[[gnu::always_inline]] inline void prefetch_row(const float* row) {
    for (std::size_t i = 0; i < kCount * Vec::kWidth; i += kLine) {
        __builtin_prefetch(row + i, 0, 2);  // into the second cache, which allows more misses at a time
    }
}

template <std::size_t kCount, bool kWeighted, class Number>
void sum_registers(const RowSums& sums, const List<Number>& list, float* out_row, std::size_t column,
                   FiniteCheck& finite) {
    Vec total[kCount];
    UNROLL
    for (std::size_t v = 0; v < kCount; ++v) {
        total[v] = sums.start == nullptr ? Vec::zero() : Vec::load(sums.start + column + v * Vec::kWidth);
    }
    const float* table = sums.table + column;
    for (std::size_t k = 0; k < list.size; ++k) {
        if (list.prefetch) prefetch_row<kCount>(table + list.index[k + kAhead] * sums.columns);
        const float* row = table + list.index[k] * sums.columns;
        UNROLL
        for (std::size_t v = 0; v < kCount; ++v) {
            total[v] = total[v] + term<kWeighted>(list, k, Vec::load(row + v * Vec::kWidth));
        }
    }
    UNROLL
    for (std::size_t v = 0; v < kCount; ++v) {
        float* to = out_row + column + v * Vec::kWidth;
        if (sums.stream) {
            total[v].stream(to);
        } else {
            total[v].store(to);
        }
        if constexpr (kWeighted) finite.add(total[v]);
    }
}

template <bool kWeighted, class Number>
void sum_part(const RowSums& sums, const List<Number>& list, float* out_row, std::size_t column, std::size_t n,
              FiniteCheck& finite) {
    Vec total = sums.start == nullptr ? Vec::zero() : Vec::load_part(sums.start + column, n);
    for (std::size_t k = 0; k < list.size; ++k) {
        const float* row = sums.table + list.index[k] * sums.columns;
        total = total + term<kWeighted>(list, k, Vec::load_part(row + column, n));
    }
    total.store_part(out_row + column, n);
    if constexpr (kWeighted) finite.add(total);
}

// Columns [column, last) of one output row, in the widest register blocks that fit.
template <std::size_t kCount, bool kWeighted, class Number>
void sum_columns(const RowSums& sums, const List<Number>& list, float* out_row, std::size_t column, std::size_t last,
                 FiniteCheck& finite) {
    constexpr std::size_t kStep = kCount * Vec::kWidth;
    for (; column + kStep <= last; column += kStep) {
        sum_registers<kCount, kWeighted>(sums, list, out_row, column, finite);
    }
    if (column == last) return;
    if constexpr (kCount > 1) {
        sum_columns<kCount / 2, kWeighted>(sums, list, out_row, column, last, finite);
    } else {
        sum_part<kWeighted>(sums, list, out_row, column, last - column, finite);
    }
}

template <class Number, bool kWeighted>
void wide_sums(const RowSums& sums, const Block& block, FiniteCheck& finite) {
    const Number* index = typed<Number>(sums.index);
    for (std::size_t first = block.first_column; first < block.last_column; first += sums.slab) {
        const std::size_t remaining = block.last_column - first;
        const std::size_t last = first + (remaining < sums.slab ? remaining : sums.slab);
        for (std::size_t visit = block.first_row; visit < block.last_row; ++visit) {
            const std::size_t i = sums.order == nullptr ? visit : sums.order[visit];
            const std::size_t row = sums.out_rows.data == nullptr ? i : sums.out_rows[i];
            const std::size_t begin = sums.offsets[i];
            const std::size_t end = sums.offsets[i + 1];
            const List<Number> list{index + begin, sums.values + (kWeighted ? begin : 0), end - begin,
                                    sums.prefetch && end + kAhead <= sums.index.size};
            sum_columns<kRegisters, kWeighted>(sums, list, sums.out + row * sums.columns, first, last, finite);
        }
    }
}

template <class Number, bool kWeighted>
bool row_sums_typed(const RowSums& sums, const Block& block) {
    FiniteCheck finite;
    if (!narrow_sums<Number, kWeighted>(sums, block, finite)) wide_sums<Number, kWeighted>(sums, block, finite);
    fence();
    return finite.all_finite();
}

bool row_sums(const RowSums& sums, const Block& block) {
    if (sums.values == nullptr) {
        return sums.index.wide ? row_sums_typed<std::uint32_t, false>(sums, block)
                               : row_sums_typed<std::uint16_t, false>(sums, block);
    }
    return sums.index.wide ? row_sums_typed<std::uint32_t, true>(sums, block)
                           : row_sums_typed<std::uint16_t, true>(sums, block);
}

}  // namespace
}  // namespace sparsepool
