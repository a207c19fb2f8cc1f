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

// Finds out whether all numbers are finite.
class FiniteCheck {
  public:
    void add(Vec sum) { total_ = total_ + (sum - sum); }  // 0 for a finite number, else NaN

    bool all_finite() const {
        alignas(64) float lanes[Vec::kWidth];
        total_.store(lanes);
        bool finite = true;
        for (const float lane : lanes) finite = finite && lane == 0.0F;
        return finite;
    }

  private:
    Vec total_ = Vec::zero();
};

// Sums of rows that fit a few registers, in one pass over the lists, which lie one after another. Adding such short
// rows takes less time than loading them, so the rows of later lists are prefetched, and the outputs of their sums.

constexpr std::size_t kMaxColumns = 32;
constexpr std::size_t kRowsAhead = 24;     // rows between a prefetch and its use
constexpr std::size_t kOutputsAhead = 32;  // outputs between a prefetch and its use

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
                if (sums.stream) {
                    v[i].stream(to + i * Register::kWidth);
                    continue;
                }
            }
            v[i].store(to + i * Register::kWidth);
        }
    }

    void check(FiniteCheck& finite) const {
        for (std::size_t i = 0; i < kCount; ++i) {
            if constexpr (std::is_same_v<Register, Vec>) {
                finite.add(v[i]);
            } else {
                finite.add(v[i].widened());
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

    void check(FiniteCheck& finite) const { finite.add(v); }
};

[[gnu::always_inline]] inline void prefetch_short_row(const float* row, std::size_t columns) {
    __builtin_prefetch(row, 0, 3);
    if (columns > kLine) __builtin_prefetch(row + kLine, 0, 3);
}

[[gnu::always_inline]] inline void prefetch_output(const float* row, std::size_t columns) {
    __builtin_prefetch(row, 1, 3);
    if (columns > kLine) __builtin_prefetch(row + kLine, 1, 3);
}

enum class Prefetch : std::uint8_t { kNothing, kOutputs, kAll };

// The row of `out` that the sum of list i goes to.
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

// Sums lists [first, last). To prefetch, `index` must have kRowsAhead numbers more, and `outputs` kOutputsAhead.
template <Prefetch kPrefetch, class Row, bool kWeighted, class Number, class Outputs>
void add_short_rows(const RowSums& sums, const Outputs& outputs, std::size_t first, std::size_t last,
                    FiniteCheck& finite) {
    const std::size_t columns = Row::columns(sums);
    const List<Number> all{typed<Number>(sums.index), sums.values, sums.index.size, true};
    const Row start = Row::start(sums);
    std::size_t k = sums.offsets[first];
    for (std::size_t i = first; i < last; ++i) {
        if constexpr (kPrefetch != Prefetch::kNothing && Outputs::kScattered) {
            if (!sums.stream) prefetch_output(sums.out + outputs[i + kOutputsAhead] * columns, columns);
        }
        const std::size_t end = sums.offsets[i + 1];
        Row total = start;
        for (; k < end; ++k) {
            if constexpr (kPrefetch == Prefetch::kAll)
                prefetch_short_row(sums.table + all.index[k + kRowsAhead] * columns, columns);
            total.template add<kWeighted>(all, k, sums);
        }
        total.store(sums.out + outputs[i] * columns, sums);
        if constexpr (kWeighted) total.check(finite);
    }
}

// Sums lists [first, last): the last ones, after which there is too little to prefetch, without prefetching.
template <class Row, bool kWeighted, class Number, class Outputs>
void split_short_rows(const RowSums& sums, const Outputs& outputs, std::size_t first, std::size_t last,
                      FiniteCheck& finite) {
    std::size_t middle = first;
    if (sums.index.size > kRowsAhead && last - first > kOutputsAhead) {
        middle = last - kOutputsAhead;
        while (middle > first && sums.offsets[middle] > sums.index.size - kRowsAhead) --middle;
    }
    if (sums.prefetch) {
        add_short_rows<Prefetch::kAll, Row, kWeighted, Number>(sums, outputs, first, middle, finite);
    } else {
        add_short_rows<Prefetch::kOutputs, Row, kWeighted, Number>(sums, outputs, first, middle, finite);
    }
    add_short_rows<Prefetch::kNothing, Row, kWeighted, Number>(sums, outputs, middle, last, finite);
}

template <class Row, bool kWeighted, class Number>
void short_rows(const RowSums& sums, std::size_t first, std::size_t last, FiniteCheck& finite) {
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

// Computes the sums if rows are short and complete, of a length that is implemented, and visited in ascending order.
// Returns whether it did.
template <class Number, bool kWeighted>
bool narrow_sums(const RowSums& sums, const Block& block, FiniteCheck& finite) {
    const std::size_t columns = sums.columns;
    if (columns > kMaxColumns || block.last_column - block.first_column != columns || sums.order != nullptr)
        return false;
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
