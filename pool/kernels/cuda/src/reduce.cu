#include "tree.cuh"

// Gradients of a step added up along the tree, in float32, dense or by rows (pool/kernels/cpu/reduce/reduce.h says what
// comes out).

// Items along x: numbers / WIDTH.
KERNEL(128, 8)
reduce(const Sources sources, float* out, float scale, uint64 size) {
    const uint64 place = item() * WIDTH;
    if (place >= size) return;
    const Floats total = sum_dense(sources, place);
    store_floats(scale == 1.0F ? total : scaled(total, scale), out + place);
}

// Blocks: (columns / WIDTH; rows). `touched_only`: rows that no source touched are left alone, else they become zeros.
KERNEL(128, 6)
reduce_rows(const Sources sources, const uint32* __restrict__ found, float* out, float scale, uint32 rows, uint32 columns,
          uint32 touched_only) {
    const Place here = place();
    if (here.item >= rows || here.column >= columns) return;
    const Node total = sum_row(sources, found, rows, columns, here);
    if (touched_only && !total.there) return;
    store_floats(scale == 1.0F ? total.sum : scaled(total.sum, scale),
                 out + static_cast<uint64>(here.item) * columns + here.column);
}
