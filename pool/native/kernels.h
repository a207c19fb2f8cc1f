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

struct RowSources {
    const RowSource* all;
    std::size_t count;
    std::size_t first_row;  // the feature of row 0
    std::size_t* cursor;    // scratch of `count` entries
    const float** found;    // the same
};

// What a fold begins with.
enum class Start { FIRST_SOURCE, ZERO, OUT };

struct Fold {
    float* out;
    Start start;
    float scale;
    bool stream;
};

// One step of Adam (adam.h): where the tensors lie, and the step's constants.
struct Adam {
    float* weights;      // of the new version
    const float* old;    // of the version before; may be the same memory
    float* mean;         // first moment
    float* square;       // second moment
    float scale;         // of the summed gradients
    float mean_rate;     // 1 - beta1
    float square_keep;   // beta2
    float square_rate;   // 1 - beta2
    float step_size;     // learning rate / (1 - beta1^t)
    float root_scale;    // 1 / sqrt(1 - beta2^t)
    float epsilon;
    float decay;         // added to the gradient, times the weight
    float shrink;        // the weight is multiplied by it first
    bool touched_only;   // rows that no source touched are left alone, weights of the new version included
    bool stream;         // stores of weights leave the caches alone
};

// Up to four sums of rows, side by side, the longest first: term k of sum i is terms[first + 4 * k + i] for k < size.
// A shorter sum has zeros at its end: row 0 of every slab is a row of zeros.
struct SumQuad {
    static constexpr std::size_t SUMS = 4;

    std::uint32_t first;
    std::uint16_t size, sums;
    std::uint16_t out[SUMS];  // the place of each sum
};

// Bags whose gradients are summed together: places first_bag .. last_bag of the plan, and the quads of both directions.
struct PlanChunk {
    std::uint32_t first_bag, last_bag;
    std::uint32_t first_bag_quad, last_bag_quad;
    std::uint32_t first_row_quad, last_row_quad;
};

// Bags that share rows. In a tile's slab row 0 is zeros, then come its `rows`, then 1 << GROUP_BITS sums per group.
struct PlanTile {
    static constexpr std::size_t GROUP_BITS = 6;

    std::uint32_t first_row, rows;
    std::uint32_t first_grouped, groups;
    std::uint32_t first_chunk, last_chunk;

    // Row of the slab where the sums of a group begin; of one group more than there are: the slab's rows.
    [[gnu::always_inline]] std::size_t sums_of(std::size_t group) const { return 1 + rows + (group << GROUP_BITS); }
    [[gnu::always_inline]] std::size_t slab_rows() const { return sums_of(groups); }
};

// See sparse_plan.h, which owns the arrays.
struct PlanView {
    static constexpr std::size_t CHUNK = 256;  // bags
    static constexpr std::size_t SLAB = 128;   // columns copied at a time

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

// The layer stacks behind a table of L1 columns: see layer_stacks.h. Weights as the kernels read them, one bucket.
namespace stack {
constexpr std::size_t FIRST = 16;             // outputs of fc_0; the last skips the other layers
constexpr std::size_t PAIRED = FIRST - 1;     // the others: squared and clipped, and clipped, enter fc_1
constexpr std::size_t HIDDEN = 2 * FIRST;     // inputs of fc_1 as laid out here: each half has one unused place
constexpr std::size_t SECOND = 32;            // outputs of fc_1
constexpr std::size_t BLOCK = 32;             // samples worked on at a time
constexpr float FLOOR = 127.0F / 128.0F;      // of squares: the integer network shifts by 7 where 127 * 127 is 1
}  // namespace stack

struct StackWeights {
    const float* fc_0;             // [FIRST][padded]; columns from l1 on are zero
    const float* fc_0_transposed;  // [l1][FIRST]
    const float* fc_0_bias;        // [FIRST]
    const float* fc_1;             // [SECOND][HIDDEN]
    const float* fc_1_transposed;  // [HIDDEN][SECOND]
    const float* fc_1_bias;        // [SECOND]
    const float* fc_2;             // [SECOND]
    float fc_2_bias;
};

// Sums over samples, added to what is there; laid out like the weights.
struct StackGradients {
    float* fc_0;
    float* fc_0_bias;
    float* fc_1;
    float* fc_1_bias;
    float* fc_2;
    float* fc_2_bias;
};

// At most BLOCK samples of one bucket. Row i of own and of opponent: the sparse layer's output [l1] of sample i.
struct StackBlock {
    const float* own;
    const float* opponent;
    std::size_t samples;
    std::size_t l1;
    std::size_t padded;  // l1 rounded up to 16
    std::size_t stride;  // of rows in scratch: padded + 16, so that they don't fall into one cache set
    float* first;        // [samples][FIRST]: outputs of fc_0
    float* second;       // [samples][SECOND]: outputs of fc_1 before they are clipped
    float* scratch;      // 2 * BLOCK * (stride + HIDDEN) floats, 64-byte aligned
};

struct Kernels {
    const char* name;

    void (*row_sums)(const RowSums& sums, const Block& block);

    // Columns [first, last), from a multiple of 16. Scratch: SLAB floats a row of the largest slab; backward SLAB
    // more a bag of a chunk, and a row of zeros.
    void (*plan_forward)(const PlanView& plan, const PlanSums& sums, std::size_t first, std::size_t last,
                         float* scratch);
    void (*plan_backward)(const PlanView& plan, const PlanSums& sums, const PlanPart& part, float* scratch);

    // out[c] = sum over rows, in chunks of fixed length whose sums are then added: more precise than one chain.
    void (*column_sums)(const float* matrix, float* out, std::size_t columns, const Block& block);

    // out[first .. last] = (start + sources, left to right) * scale.
    void (*fold)(const Fold& fold, const float* const* sources, std::size_t count, std::size_t first,
                 std::size_t last);

    // The same for rows [block.first_row, block.last_row) of `columns` floats.
    void (*fold_rows)(const Fold& fold, const RowSources& sources, std::size_t columns, const Block& block);

    // Copies `size` numbers; whether all are finite.
    bool (*copy_checked)(const float* from, float* to, std::size_t size);

    // A step with the fold of the sources as gradient; of none: zeros. Dense, then by rows.
    void (*adam)(const Adam& adam, const float* const* sources, std::size_t count, std::size_t first,
                 std::size_t last);
    void (*adam_rows)(const Adam& adam, const RowSources& sources, std::size_t columns, const Block& block);

    // Writes first, second and out [samples].
    void (*stack_forward)(const StackWeights& weights, const StackBlock& block, float* out);

    // Reads first and second; `grad` [samples] is that of out. Writes the rows of grad_own and grad_opponent.
    void (*stack_backward)(const StackWeights& weights, const StackBlock& block, const float* grad,
                           const StackGradients& sums, float* grad_own, float* grad_opponent, bool stream);

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
