#include "first_stage.cuh"
#include "list_sums.cuh"

static __device__ __forceinline__ Floats clipped(const Floats& sums, float highest) {
    Floats out;
    UNROLL
    for (int i = 0; i < WIDTH; ++i) {
        const float x = sums.at[i];
        const float limited = x > highest ? highest : x;
        out.at[i] = x < 0.0F ? 0.0F : limited;
    }
    return out;
}

static __device__ __forceinline__ Floats cut(const Floats& products, float factor, float one) {
    Floats out;
    UNROLL
    for (int i = 0; i < WIDTH; ++i) out.at[i] = floor_to_grid(products.at[i] * factor, one);
    return out;
}

// Blocks: (columns, or half of them for pairs, / WIDTH; bags).
KERNEL(128, 5)
first_stage(const Row* __restrict__ table, const INDEX* __restrict__ numbers, const uint32* __restrict__ offsets,
            const Number* __restrict__ bias, Number* __restrict__ kept, Number* __restrict__ out, float highest,
            uint32 samples, uint32 columns, float factor, float one) {
    const WorkItem work = work_item();
    const uint32 width = kPairs ? columns / 2 : columns;
    if (work.item >= 2 * samples || work.column >= width) return;
    const Lists all{table, numbers, nullptr, columns};
    const uint32 begin = offsets[work.item];
    const uint32 end = offsets[work.item + 1];
    Number* const keep = kept + static_cast<uint64>(work.item) * columns + work.column;
    Number* const to = out + place_in_row(work.item, samples, width) + work.column;
    Floats low = load(bias + work.column);
    all.add_up(low, begin, end, work.column);
    low = rounded(clipped(low, highest));
    store(low, keep);
    if (kPairs) {
        Floats high = load(bias + width + work.column);
        all.add_up(high, begin, end, width + work.column);
        high = rounded(clipped(high, highest));
        store(high, keep + width);
        store(CUT ? cut(product(low, high), factor, one) : product(low, high), to);
    } else {
        store(ACTIVATION == 1 ? low : product(low, low), to);
    }
}
