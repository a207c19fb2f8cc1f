#include "first_stage.cuh"

static __device__ __forceinline__ Floats where_not_clipped(const Floats& kept, const Floats& gradient, float highest) {
    Floats out;
    UNROLL
    for (int i = 0; i < WIDTH; ++i) {
        out.at[i] = kept.at[i] <= 0.0F || kept.at[i] >= highest ? 0.0F : gradient.at[i];
    }
    return out;
}

constexpr uint32 kBags = 32;  // added up for the bias at a time, as column_sums does

// gradient: of `out`; sums [2 * samples, columns]: the gradient of the sums; bias [2 * samples / kBags, columns]: its
// sums over kBags bags. Blocks: (columns, or half of them for pairs, / WIDTH; kBags bags each).
KERNEL(128, 6)
first_stage_backward(const Number* __restrict__ gradient, const Number* __restrict__ kept, Number* __restrict__ sums,
                     float* __restrict__ bias, float highest, uint32 samples, uint32 columns, float factor) {
    const WorkItem work = work_item();
    const uint32 width = kPairs ? columns / 2 : columns;
    if (work.item * kBags >= 2 * samples || work.column >= width) return;
    const uint32 end = 2 * samples - work.item * kBags < kBags ? 2 * samples : (work.item + 1) * kBags;
    Floats low_total = zeros();
    Floats high_total = zeros();
    UNROLL_BY(4)
    for (uint32 bag = work.item * kBags; bag < end; ++bag) {
        const Floats grad_out = load(gradient + place_in_row(bag, samples, width) + work.column);
        const Floats grad_product = CUT ? scaled(grad_out, factor) : grad_out;
        const uint64 at = static_cast<uint64>(bag) * columns + work.column;
        const Floats low = load(kept + at);
        if (kPairs) {
            const Floats high = load(kept + at + width);
            const Floats grad_low = rounded(where_not_clipped(low, product(grad_product, high), highest));
            const Floats grad_high = rounded(where_not_clipped(high, product(grad_product, low), highest));
            store(grad_low, sums + at);
            store(grad_high, sums + at + width);
            add(low_total, grad_low);
            add(high_total, grad_high);
        } else {
            const Floats slope = ACTIVATION == 1 ? grad_product : product(grad_product, scaled(low, 2.0F));
            const Floats grad_low = rounded(where_not_clipped(low, slope, highest));
            store(grad_low, sums + at);
            add(low_total, grad_low);
        }
    }
    float* const to = bias + static_cast<uint64>(work.item) * columns + work.column;
    store_floats(low_total, to);
    if (kPairs) store_floats(high_total, to + width);
}
