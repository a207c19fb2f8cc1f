#pragma once

#include <type_traits>

#include "base/numbers.h"
#include "base/vec.h"
#include "sparse/kernels.h"

// Lists of rows with or without values, as the kernels of row_sums take them.
namespace sparsepool {
namespace {

template <class Number>
struct List {
    const Number* index;
    const float* values;  // as many; null: ones
    std::size_t size;
    bool prefetch;  // index goes on for kAhead numbers after the list
};

// What row number k of the list adds, of the row's part that was loaded.
template <bool kWeighted, class Number, class Register>
Register term(const List<Number>& list, std::size_t k, Register row) {
    if constexpr (kWeighted) {
        return Register::all(list.values[k]) * row;
    } else {
        return row;
    }
}

// Finds what is not finite among all that it is given.
class Finite {
  public:
    void see(Vec sum) { seen_ = seen_ + (sum - sum); }  // finite: 0; else NaN, which stays

    bool all() const {
        alignas(64) float lanes[Vec::kWidth];
        seen_.store(lanes);
        bool finite = true;
        for (const float lane : lanes) finite = finite && lane == 0.0F;
        return finite;
    }

  private:
    Vec seen_ = Vec::zero();
};

// Sums of rows that a few registers hold whole: one pass over the lists, which lie one after another. Rows so short are
// added sooner than they are found, so the time is that of memory: what later lists name is fetched, too, and where
// their sums go.

constexpr std::size_t kNarrow = 32;      // columns at most
constexpr std::size_t kFar = 24;         // rows between a prefetch and its use
constexpr std::size_t kFarOutputs = 32;  // outputs between a prefetch and its use

// A row of kCount registers.
template <class Register, std::size_t kCount>
struct ShortRow {
    static constexpr std::size_t kColumns = kCount * Register::kWidth;
    Register v[kCount];

    static constexpr std::size_t columns(const RowSums&) { return kColumns; }

    static ShortRow start(const RowSums& sums) {
        ShortRow out;
        for (std::size_t i = 0; i < kCount; ++i) {
            out.v[i] = sums.start == nullptr ? Register::zero() : Register::load(sums.start + i * Register::kWidth);
        }
        return out;
    }

    template <bool kWeighted, class Number>
    void add(const List<Number>& list, std::size_t k, const RowSums& sums) {
        const float* row = sums.table + list.index[k] * kColumns;
        UNROLL
        for (std::size_t i = 0; i < kCount; ++i) {
            v[i] = v[i] + term<kWeighted>(list, k, Register::load(row + i * Register::kWidth));
        }
    }

    void store(float* to, const RowSums& sums) const {
        UNROLL
        for (std::size_t i = 0; i < kCount; ++i) {
            if constexpr (kColumns % kLine == 0) {
                sums.stream ? v[i].stream(to + i * Register::kWidth) : v[i].store(to + i * Register::kWidth);
            } else {
                v[i].store(to + i * Register::kWidth);
            }
        }
    }

    void show(Finite& finite) const {
        for (std::size_t i = 0; i < kCount; ++i) {
            if constexpr (std::is_same_v<Register, Vec>) {
                finite.see(v[i]);
            } else {
                finite.see(v[i].widened());
            }
        }
    }
};

// A row of less than one register.
struct PartRow {
    Vec v;

    static std::size_t columns(const RowSums& sums) { return sums.columns; }

    static PartRow start(const RowSums& sums) {
        return {sums.start == nullptr ? Vec::zero() : Vec::load_part(sums.start, sums.columns)};
    }

    template <bool kWeighted, class Number>
    void add(const List<Number>& list, std::size_t k, const RowSums& sums) {
        v = v + term<kWeighted>(list, k, Vec::load_part(sums.table + list.index[k] * sums.columns, sums.columns));
    }

    void store(float* to, const RowSums& sums) const { v.store_part(to, sums.columns); }

    void show(Finite& finite) const { finite.see(v); }
};

[[gnu::always_inline]] inline void fetch_row(const float* row, std::size_t columns) {
    __builtin_prefetch(row, 0, 3);
    if (columns > kLine) __builtin_prefetch(row + kLine, 0, 3);
}

[[gnu::always_inline]] inline void fetch_output(const float* row, std::size_t columns) {
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
template <Fetch kFetch, class Row, bool kWeighted, class Number, class Outputs>
void add_short_rows(const RowSums& sums, const Outputs& outputs, std::size_t first, std::size_t last, Finite& finite) {
    const std::size_t columns = Row::columns(sums);
    const List<Number> all{typed<Number>(sums.index), sums.values, sums.index.size, true};
    const Row start = Row::start(sums);
    std::size_t k = sums.offsets[first];
    for (std::size_t i = first; i < last; ++i) {
        if constexpr (kFetch != Fetch::kNothing && Outputs::kScattered) {
            if (!sums.stream) fetch_output(sums.out + outputs[i + kFarOutputs] * columns, columns);
        }
        const std::size_t end = sums.offsets[i + 1];
        Row total = start;
        for (; k < end; ++k) {
            if constexpr (kFetch == Fetch::kAll) fetch_row(sums.table + all.index[k + kFar] * columns, columns);
            total.template add<kWeighted>(all, k, sums);
        }
        total.store(sums.out + outputs[i] * columns, sums);
        if constexpr (kWeighted) total.show(finite);
    }
}

template <class Row, bool kWeighted, class Number, class Outputs>
void split_short_rows(const RowSums& sums, const Outputs& outputs, std::size_t first, std::size_t last,
                      Finite& finite) {
    std::size_t middle = first;
    if (sums.index.size > kFar && last - first > kFarOutputs) {
        middle = last - kFarOutputs;
        while (middle > first && sums.offsets[middle] > sums.index.size - kFar) --middle;
    }
    if (sums.prefetch) {
        add_short_rows<Fetch::kAll, Row, kWeighted, Number>(sums, outputs, first, middle, finite);
    } else {
        add_short_rows<Fetch::kOutputs, Row, kWeighted, Number>(sums, outputs, first, middle, finite);
    }
    add_short_rows<Fetch::kNothing, Row, kWeighted, Number>(sums, outputs, middle, last, finite);
}

template <class Row, bool kWeighted, class Number>
void short_rows(const RowSums& sums, std::size_t first, std::size_t last, Finite& finite) {
    if (sums.out_rows.data == nullptr) {
        split_short_rows<Row, kWeighted, Number>(sums, InOrder{}, first, last, finite);
    } else if (sums.out_rows.wide) {
        const Scattered<std::uint32_t> rows{typed<std::uint32_t>(sums.out_rows)};
        split_short_rows<Row, kWeighted, Number>(sums, rows, first, last, finite);
    } else {
        const Scattered<std::uint16_t> rows{typed<std::uint16_t>(sums.out_rows)};
        split_short_rows<Row, kWeighted, Number>(sums, rows, first, last, finite);
    }
}

// Whether it was done: it is for whole rows of some lengths only, in ascending order.
template <class Number, bool kWeighted>
bool narrow_sums(const RowSums& sums, const Block& block, Finite& finite) {
    const std::size_t columns = sums.columns;
    if (columns > kNarrow || block.last_column - block.first_column != columns || sums.order != nullptr) return false;
    const std::size_t first = block.first_row;
    const std::size_t last = block.last_row;
    if (columns == 1) {
        short_rows<ShortRow<Single, 1>, kWeighted, Number>(sums, first, last, finite);
#if defined(__AVX512F__)
    } else if (columns == Half::kWidth) {
        short_rows<ShortRow<Half, 1>, kWeighted, Number>(sums, first, last, finite);
#endif
    } else if (columns < Vec::kWidth) {
        short_rows<PartRow, kWeighted, Number>(sums, first, last, finite);
    } else if (columns == Vec::kWidth) {
        short_rows<ShortRow<Vec, 1>, kWeighted, Number>(sums, first, last, finite);
    } else if (columns == 2 * Vec::kWidth) {
        short_rows<ShortRow<Vec, 2>, kWeighted, Number>(sums, first, last, finite);
    } else if (columns == 4 * Vec::kWidth) {
        short_rows<ShortRow<Vec, 4>, kWeighted, Number>(sums, first, last, finite);
    } else if (columns == 8 * Vec::kWidth) {
        short_rows<ShortRow<Vec, 8>, kWeighted, Number>(sums, first, last, finite);
    } else {
        return false;
    }
    return true;
}

}  // namespace
}  // namespace sparsepool
