#pragma once

#include "arrays/typed.h"
#include "sparse/kernels.h"
#include "vector/vec.h"

// Sums of the rows that lists name (sparse_layer.h).
namespace sparsepool {
namespace {

constexpr std::size_t kAhead = 16;  // rows between a prefetch and its use

template <class Number>
struct List {
    const Number* index;
    std::size_t size;
    bool prefetch;  // index goes on for kAhead numbers after the list
};

template <std::size_t kCount>
void prefetch_row(const float* row) {
    for (std::size_t i = 0; i < kCount * Vec::kWidth; i += kLine) {
        __builtin_prefetch(row + i, 0, 2);  // into the second cache: there are more slots to wait in
    }
}

template <std::size_t kCount, class Number>
void sum_registers(const RowSums& sums, List<Number> list, float* out_row, std::size_t column) {
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
        for (std::size_t v = 0; v < kCount; ++v) total[v] = total[v] + Vec::load(row + v * Vec::kWidth);
    }
    UNROLL
    for (std::size_t v = 0; v < kCount; ++v) {
        float* to = out_row + column + v * Vec::kWidth;
        if (sums.stream) {
            total[v].stream(to);
        } else {
            total[v].store(to);
        }
    }
}

template <class Number>
void sum_part(const RowSums& sums, List<Number> list, float* out_row, std::size_t column, std::size_t n) {
    Vec total = sums.start == nullptr ? Vec::zero() : Vec::load_part(sums.start + column, n);
    for (std::size_t k = 0; k < list.size; ++k) {
        total = total + Vec::load_part(sums.table + list.index[k] * sums.columns + column, n);
    }
    total.store_part(out_row + column, n);
}

// Columns [column, last) of one output row, in the widest register blocks that fit.
template <std::size_t kCount, class Number>
void sum_columns(const RowSums& sums, List<Number> list, float* out_row, std::size_t column, std::size_t last) {
    constexpr std::size_t kStep = kCount * Vec::kWidth;
    for (; column + kStep <= last; column += kStep) sum_registers<kCount>(sums, list, out_row, column);
    if (column == last) return;
    if constexpr (kCount > 1) {
        sum_columns<kCount / 2>(sums, list, out_row, column, last);
    } else {
        sum_part(sums, list, out_row, column, last - column);
    }
}

template <class Number>
void row_sums_typed(const RowSums& sums, const Block& block) {
    const Number* index = typed<Number>(sums.index);
    for (std::size_t first = block.first_column; first < block.last_column; first += sums.slab) {
        const std::size_t rest = block.last_column - first;
        const std::size_t last = first + (rest < sums.slab ? rest : sums.slab);
        for (std::size_t place = block.first_row; place < block.last_row; ++place) {
            const std::size_t i = sums.order == nullptr ? place : sums.order[place];
            const std::size_t row = sums.out_rows.data == nullptr ? i : sums.out_rows[i];
            const std::size_t end = sums.offsets[i + 1];
            const List<Number> list{index + sums.offsets[i], end - sums.offsets[i],
                                    sums.prefetch && end + kAhead <= sums.index.size};
            sum_columns<kRegisters>(sums, list, sums.out + row * sums.columns, first, last);
        }
    }
    fence();
}

void row_sums(const RowSums& sums, const Block& block) {
    if (sums.index.wide) {
        row_sums_typed<std::uint32_t>(sums, block);
    } else {
        row_sums_typed<std::uint16_t>(sums, block);
    }
}

}  // namespace
}  // namespace sparsepool
