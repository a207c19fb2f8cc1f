#pragma once

#include <cstddef>
#include <cstdint>

#include "base/numbers.h"

// The sparse layer's hot code, and the plain structs that it works on. Nothing here checks bounds.
namespace sparsepool {

// out[out_rows[i]] = start + table[index[offsets[i]]] + ... + table[index[offsets[i + 1] - 1]], left to right; with
// values each row is multiplied by that of its place in index.
struct RowSums {
    const float* table;
    const float* start;  // [columns]; null: zeros
    const std::uint32_t* offsets;
    Numbers index;
    const float* values;         // as many as index; null: ones
    Numbers out_rows;            // data null: row i
    const std::uint32_t* order;  // the i in the order in which they are visited; null: ascending
    float* out;
    std::size_t columns;  // of table and out
    std::size_t slab;     // columns computed for all rows before the next ones, so that they stay in a cache
    bool prefetch;        // the rows of the following lists
    bool stream;          // stores that leave the caches alone; out is then 64-byte aligned, row by row
};

// Up to four sums of rows, side by side, the longest first: term k of sum i is terms[first + 4 * k + i] for k < size.
// A shorter sum has zeros at its end: row 0 of every slab is a row of zeros.
struct SumQuad {
    static constexpr std::size_t kSums = 4;

    std::uint32_t first;
    std::uint16_t size, sums;
    std::uint16_t out[kSums];  // the number of each sum
};

// Bags whose gradients are summed together: first_bag .. last_bag - 1 in the order of the plan, and the quads of both
// directions.
struct PlanChunk {
    std::uint32_t first_bag, last_bag;
    std::uint32_t first_bag_quad, last_bag_quad;
    std::uint32_t first_row_quad, last_row_quad;
};

// Bags that share rows. In a tile's slab row 0 is zeros, then come its `rows`, then 1 << kGroupBits sums per group.
struct PlanTile {
    static constexpr std::size_t kGroupBits = 6;

    std::uint32_t first_row, rows;
    std::uint32_t first_grouped, groups;
    std::uint32_t first_chunk, last_chunk;

    // Row of the slab where the sums of a group begin.
    [[gnu::always_inline]] std::size_t sums_of(std::size_t group) const { return 1 + rows + (group << kGroupBits); }
    [[gnu::always_inline]] std::size_t slab_rows() const { return sums_of(groups); }
};

// See sparse_plan.h, which owns the arrays.
struct PlanView {
    static constexpr std::size_t kChunk = 256;  // bags
    static constexpr std::size_t kSlab = 128;   // columns copied at a time

    const PlanTile* tiles;
    std::size_t num_tiles;
    const PlanChunk* chunks;
    std::size_t num_chunks;
    const std::uint32_t* bags;
    const std::uint32_t* rows;
    const std::uint8_t* seen;
    const std::uint16_t* grouped;
    const SumQuad* bag_quads;  // to bags of the chunk, of the tile's slab
    const std::uint16_t* bag_terms;
    const SumQuad* row_quads;  // to rows of the tile's slab, of the chunk's bags from 1 on
    const std::uint16_t* row_terms;
};

// Forward `from` is the table and `to` the output; backward `from` is the output's gradient and `to` the table's.
struct PlanSums {
    const float* from;
    const float* start;  // forward: [columns] or null
    float* to;
    std::size_t columns;
    bool stream;         // stores of `to` leave the caches alone
    float* column_sums;  // backward: what is added to them, zeros at first
};

// Of a backward pass.
struct PlanPart {
    std::size_t first_tile, last_tile;
    std::size_t first_column, last_column;
};

struct SparseKernels {
    // Whether all of out is finite, as far as there are values; else true.
    bool (*row_sums)(const RowSums& sums, const Block& block);

    // Columns [first, last), from a multiple of 16. Scratch: kSlab floats a row of the largest slab; backward kSlab
    // more a bag of a chunk, and a row of zeros.
    void (*plan_forward)(const PlanView& plan, const PlanSums& sums, std::size_t first, std::size_t last,
                         float* scratch);
    void (*plan_backward)(const PlanView& plan, const PlanSums& sums, const PlanPart& part, float* scratch);

    // out[c] = sum over rows, in chunks of fixed length whose sums are then added: more precise than one chain.
    void (*column_sums)(const float* matrix, float* out, std::size_t columns, const Block& block);

    static const SparseKernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool
