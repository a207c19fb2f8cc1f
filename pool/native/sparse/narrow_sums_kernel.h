#pragma once

#include "sparse/list_kernel.h"

// Sums of rows that a few registers hold whole: one pass over the lists, which lie one after another. Rows so short are
// added sooner than they are found, so the time is that of memory: what later lists name is fetched, too, and where
// their sums go.
namespace sparsepool {
namespace {

constexpr std::size_t kNarrow = 32;      // columns at most
constexpr std::size_t kFar = 48;         // rows between a prefetch and its use
constexpr std::size_t kFarOutputs = 32;  // outputs between a prefetch and its use

// kCount registers; with kPart the one register is not full.
template <std::size_t kCount, bool kPart>
struct ShortRow {
    Vec v[kCount];

    static Vec load(const float* row, std::size_t i, std::size_t columns) {
        if constexpr (kPart) {
            return Vec::load_part(row, columns);
        } else {
            return Vec::load(row + i * Vec::kWidth);
        }
    }

    static ShortRow start(const float* row, std::size_t columns) {
        ShortRow out;
        for (std::size_t i = 0; i < kCount; ++i) out.v[i] = row == nullptr ? Vec::zero() : load(row, i, columns);
        return out;
    }

    void store(float* to, std::size_t columns, bool stream) const {
        if constexpr (kPart) {
            v[0].store_part(to, columns);
        } else {
            UNROLL
            for (std::size_t i = 0; i < kCount; ++i) {
                stream ? v[i].stream(to + i * Vec::kWidth) : v[i].store(to + i * Vec::kWidth);
            }
        }
    }

    template <bool kWeighted, class Number>
    void add(const List<Number>& list, std::size_t k, const float* table, std::size_t columns) {
        const float* row = table + list.index[k] * columns;
        UNROLL
        for (std::size_t i = 0; i < kCount; ++i) v[i] = v[i] + term<kWeighted>(list, k, load(row, i, columns));
    }
};

inline void fetch_row(const float* row, std::size_t columns) {
    __builtin_prefetch(row, 0, 3);
    if (columns > kLine) __builtin_prefetch(row + kLine, 0, 3);
}

inline void fetch_output(const float* row, std::size_t columns) {
    __builtin_prefetch(row, 1, 3);
    if (columns > kLine) __builtin_prefetch(row + kLine, 1, 3);
}

enum class Fetch : std::uint8_t { kNothing, kOutputs, kAll };

// Where the sum of list i goes.
struct InOrder {
    static constexpr bool kScattered = false;
    std::size_t operator[](std::size_t i) const { return i; }
};

template <class Number>
struct Scattered {
    static constexpr bool kScattered = true;
    const Number* rows;
    std::size_t operator[](std::size_t i) const { return rows[i]; }
};

// Lists [first, last). To fetch anything, index must go on for kFar numbers, and outputs for kFarOutputs, behind them.
template <Fetch kFetch, std::size_t kCount, bool kPart, bool kWeighted, class Number, class Outputs>
void add_short_rows(const RowSums& sums, const Outputs& outputs, std::size_t first, std::size_t last, Finite& finite) {
    using Row = ShortRow<kCount, kPart>;
    const std::size_t columns = sums.columns;
    const List<Number> all{typed<Number>(sums.index), sums.values, sums.index.size, true};
    const Row start = Row::start(sums.start, columns);
    std::size_t k = sums.offsets[first];
    for (std::size_t i = first; i < last; ++i) {
        if constexpr (kFetch != Fetch::kNothing && Outputs::kScattered) {
            if (!sums.stream) fetch_output(sums.out + outputs[i + kFarOutputs] * columns, columns);
        }
        const std::size_t end = sums.offsets[i + 1];
        Row total = start;
        for (; k < end; ++k) {
            if constexpr (kFetch == Fetch::kAll) fetch_row(sums.table + all.index[k + kFar] * columns, columns);
            total.template add<kWeighted>(all, k, sums.table, columns);
        }
        total.store(sums.out + outputs[i] * columns, columns, sums.stream);
        if constexpr (kWeighted) {
            for (std::size_t r = 0; r < kCount; ++r) finite.see(total.v[r]);
        }
    }
}

template <std::size_t kCount, bool kPart, bool kWeighted, class Number, class Outputs>
void split_short_rows(const RowSums& sums, const Outputs& outputs, std::size_t first, std::size_t last,
                      Finite& finite) {
    std::size_t middle = first;
    if (sums.index.size > kFar && last - first > kFarOutputs) {
        middle = last - kFarOutputs;
        while (middle > first && sums.offsets[middle] > sums.index.size - kFar) --middle;
    }
    if (sums.prefetch) {
        add_short_rows<Fetch::kAll, kCount, kPart, kWeighted, Number>(sums, outputs, first, middle, finite);
    } else {
        add_short_rows<Fetch::kOutputs, kCount, kPart, kWeighted, Number>(sums, outputs, first, middle, finite);
    }
    add_short_rows<Fetch::kNothing, kCount, kPart, kWeighted, Number>(sums, outputs, middle, last, finite);
}

template <std::size_t kCount, bool kPart, bool kWeighted, class Number>
void short_rows(const RowSums& sums, std::size_t first, std::size_t last, Finite& finite) {
    if (sums.out_rows.data == nullptr) {
        split_short_rows<kCount, kPart, kWeighted, Number>(sums, InOrder{}, first, last, finite);
    } else if (sums.out_rows.wide) {
        const Scattered<std::uint32_t> rows{typed<std::uint32_t>(sums.out_rows)};
        split_short_rows<kCount, kPart, kWeighted, Number>(sums, rows, first, last, finite);
    } else {
        const Scattered<std::uint16_t> rows{typed<std::uint16_t>(sums.out_rows)};
        split_short_rows<kCount, kPart, kWeighted, Number>(sums, rows, first, last, finite);
    }
}

// Whether it was done: it is for whole rows of some lengths only, in ascending order.
template <class Number, bool kWeighted>
bool narrow_sums(const RowSums& sums, const Block& block, Finite& finite) {
    const std::size_t columns = sums.columns;
    if (columns > kNarrow || block.last_column - block.first_column != columns || sums.order != nullptr) return false;
    const std::size_t first = block.first_row;
    const std::size_t last = block.last_row;
    if (columns < Vec::kWidth) {
        short_rows<1, true, kWeighted, Number>(sums, first, last, finite);
    } else if (columns == Vec::kWidth) {
        short_rows<1, false, kWeighted, Number>(sums, first, last, finite);
    } else if (columns == 2 * Vec::kWidth) {
        short_rows<2, false, kWeighted, Number>(sums, first, last, finite);
    } else if (columns == 4 * Vec::kWidth) {
        short_rows<4, false, kWeighted, Number>(sums, first, last, finite);
    } else if (columns == 8 * Vec::kWidth) {
        short_rows<8, false, kWeighted, Number>(sums, first, last, finite);
    } else {
        return false;
    }
    return true;
}

}  // namespace
}  // namespace sparsepool
