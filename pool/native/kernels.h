// What each instruction set's kernel file offers, and the plain structs that it works on.
//
// Kernel files are compiled once per level with that level's options. They use no std template: an instance
// compiled for AVX-512 could be the copy that the linker keeps for every file. Nothing here checks bounds.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sparsepool {

// Unsigned numbers in 16 or 32 bits.
struct Numbers {
    const void* data = nullptr;
    std::size_t size = 0;
    bool wide = false;  // uint32

    std::uint32_t operator[](std::size_t i) const {
        return wide ? static_cast<const std::uint32_t*>(data)[i] : static_cast<const std::uint16_t*>(data)[i];
    }
};

// Rectangle of outputs that one thread owns. With an order, its rows are places in that order.
struct Block {
    std::size_t first_row, last_row;
    std::size_t first_column, last_column;
};

// out[out_rows[i]] = start + table[index[offsets[i]]] + ... + table[index[offsets[i + 1] - 1]], left to right.
struct RowSums {
    const float* table;
    const float* start;  // [columns]; null: zeros
    const std::uint32_t* offsets;
    Numbers index;
    Numbers out_rows;            // data null: row i
    const std::uint32_t* order;  // the i in the order in which they are visited; null: ascending
    float* out;
    std::size_t columns;  // of table and out
    std::size_t slab;     // columns computed for all rows before the next ones, so that they stay in a cache
    bool prefetch;        // the rows of the following lists
    bool stream;          // stores that leave the caches alone; out is then 64-byte aligned, row by row
};

// One source of a fold over rows: `rows[r - first_row]` is defined only for r in `touched`.
struct RowSource {
    const float* rows;
    Numbers touched;  // strictly ascending
};

// What a fold begins with.
enum class Start { FIRST_SOURCE, ZERO, OUT };

struct Fold {
    float* out;
    Start start;
    float scale;
    bool stream;
};

struct Kernels {
    const char* name;

    void (*row_sums)(const RowSums& sums, const Block& block);

    // out[c] = sum over rows, in chunks of fixed length whose sums are then added: more precise than one chain.
    void (*column_sums)(const float* matrix, float* out, std::size_t columns, const Block& block);

    // out[first .. last] = (start + sources, left to right) * scale.
    void (*fold)(const Fold& fold, const float* const* sources, std::size_t count, std::size_t first,
                 std::size_t last);

    // The same for rows [block.first_row, block.last_row) of `columns` floats, numbered from `first_row`.
    // `cursor` and `found` are scratch of `count` entries.
    void (*fold_rows)(const Fold& fold, const RowSource* sources, std::size_t count, std::size_t first_row,
                      std::size_t columns, const Block& block, std::size_t* cursor, const float** found);

    std::uint32_t (*maximum)(const Numbers& numbers);  // 0 if empty
    bool (*ascending)(const Numbers& numbers, bool strictly);
};

// Index of the first number that is at least `value`, by bisection.
inline std::size_t lower_bound(const Numbers& numbers, std::size_t value) {
    std::size_t first = 0;
    std::size_t last = numbers.size;
    while (first < last) {
        const std::size_t middle = first + (last - first) / 2;
        if (numbers[middle] < value) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    return first;
}

extern const Kernels BASELINE_KERNELS;
#if defined(__x86_64__)
extern const Kernels AVX2_KERNELS;
extern const Kernels AVX512_KERNELS;
#endif

}  // namespace sparsepool
