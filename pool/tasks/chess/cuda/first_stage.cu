#include "list_sums.cuh"

// The first layer with what follows it: sums of rows, clipped to 0 .. highest, and of both perspectives side by side.
//
// Bags 0 .. samples are the own perspectives, the others the opponents'. ACTIVATION: what becomes of the clipped sums
//   0  products of the first half with the second, [samples, columns]: the own perspective's half, then the other's
//   1  they themselves, [samples, 2 * columns]
//   2  their squares, [samples, 2 * columns]
// `kept` [2 * samples, columns] is what backward needs: the clipped sums. A NaN stays one.

constexpr bool kPairs = ACTIVATION == 0;

static __device__ __forceinline__ Floats clipped(const Floats& sums, float highest) {
    Floats out;
    UNROLL
    for (int i = 0; i < WIDTH; ++i) {
        const float x = sums.at[i];
        out.at[i] = x < 0.0F ? 0.0F : x > highest ? highest : x;
    }
    return out;
}

// Rounded as in memory, so that backward sees what forward has used.
static __device__ __forceinline__ Floats rounded(const Floats& numbers) {
#if BFLOAT16
    Floats out;
    UNROLL
    for (int i = 0; i < WIDTH; ++i) out.at[i] = from_bfloat16(to_bfloat16(numbers.at[i]));
    return out;
#else
    return numbers;
#endif
}

static __device__ __forceinline__ Floats product(const Floats& left, const Floats& right) {
    Floats out;
    UNROLL
    for (int i = 0; i < WIDTH; ++i) out.at[i] = left.at[i] * right.at[i];
    return out;
}

// Of a bag's part of a sample's row: numbers for each bag, and where they begin.
static __device__ __forceinline__ uint64 place_in_row(uint32 bag, uint32 samples, uint32 width) {
    const uint32 side = bag < samples ? 0 : 1;
    return (static_cast<uint64>(bag - side * samples) * 2 + side) * width;
}

// Blocks: (columns, or half of them for pairs, / WIDTH; bags).
KERNEL(128, 6)
first_stage(const Row* __restrict__ table, const INDEX* __restrict__ numbers, const uint32* __restrict__ offsets,
            const Number* __restrict__ bias, Number* __restrict__ kept, Number* __restrict__ out, float highest,
            uint32 samples, uint32 columns) {
    const Place here = place();
    const uint32 width = kPairs ? columns / 2 : columns;
    if (here.item >= 2 * samples || here.column >= width) return;
    const Lists all{table, numbers, nullptr, columns};
    const uint32 begin = offsets[here.item];
    const uint32 end = offsets[here.item + 1];
    Number* const keep = kept + static_cast<uint64>(here.item) * columns + here.column;
    Number* const to = out + place_in_row(here.item, samples, width) + here.column;
    Floats low = load(bias + here.column);
    all.add_up(low, begin, end, here.column);
    low = rounded(clipped(low, highest));
    store(low, keep);
    if (kPairs) {
        Floats high = load(bias + width + here.column);
        all.add_up(high, begin, end, width + here.column);
        high = rounded(clipped(high, highest));
        store(high, keep + width);
        store(product(low, high), to);
    } else {
        store(ACTIVATION == 1 ? low : product(low, low), to);
    }
}

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
                     float* __restrict__ bias, float highest, uint32 samples, uint32 columns) {
    const Place here = place();
    const uint32 width = kPairs ? columns / 2 : columns;
    if (here.item * kBags >= 2 * samples || here.column >= width) return;
    const uint32 end = 2 * samples - here.item * kBags < kBags ? 2 * samples : (here.item + 1) * kBags;
    Floats low_total = zeros();
    Floats high_total = zeros();
    UNROLL_BY(4)
    for (uint32 bag = here.item * kBags; bag < end; ++bag) {
        const Floats from = load(gradient + place_in_row(bag, samples, width) + here.column);
        const uint64 at = static_cast<uint64>(bag) * columns + here.column;
        const Floats low = load(kept + at);
        if (kPairs) {
            const Floats high = load(kept + at + width);
            const Floats of_low = rounded(where_not_clipped(low, product(from, high), highest));
            const Floats of_high = rounded(where_not_clipped(high, product(from, low), highest));
            store(of_low, sums + at);
            store(of_high, sums + at + width);
            add(low_total, of_low);
            add(high_total, of_high);
        } else {
            const Floats slope = ACTIVATION == 1 ? from : product(from, scaled(low, 2.0F));
            const Floats of_low = rounded(where_not_clipped(low, slope, highest));
            store(of_low, sums + at);
            add(low_total, of_low);
        }
    }
    float* const to = bias + static_cast<uint64>(here.item) * columns + here.column;
    store_floats(low_total, to);
    if (kPairs) store_floats(high_total, to + width);
}
