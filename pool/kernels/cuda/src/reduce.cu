#include "tree.cuh"

// Adds up the gradients of a step along the tree, in float32: dense gradients, or rows of a table. The result is that
// of pool/kernels/cpu/reduce/reduce.h.

// Items along x: numbers / WIDTH.
KERNEL(128, 8)
reduce(const Sources sources, float* out, float scale, uint64 size) {
    const uint64 first = item() * WIDTH;
    if (first >= size) return;
    const Floats total = sum_dense(sources, first);
    store_floats(scale == 1.0F ? total : scaled(total, scale), out + first);
}

// Blocks: (columns / WIDTH; rows). With `touched_only` rows that no source touched are not written; else they become
// zeros.
KERNEL(128, 6)
reduce_rows(const Sources sources, const uint32* __restrict__ row_numbers, float* out, float scale, uint32 rows,
            uint32 columns, uint32 touched_only) {
    const WorkItem work = work_item();
    if (work.item >= rows || work.column >= columns) return;
    const Node total = sum_row(sources, row_numbers, rows, columns, work);
    if (touched_only && !total.is_defined) return;
    store_floats(scale == 1.0F ? total.sum : scaled(total.sum, scale),
                 out + static_cast<uint64>(work.item) * columns + work.column);
}
