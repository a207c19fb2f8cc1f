#include "borders.cuh"

// A linear layer for each bucket, all buckets in one launch. Float32: x [samples, inputs], weight
// [BUCKETS, outputs, inputs], bias [BUCKETS, outputs], y and its gradient [samples, outputs].

constexpr uint32 kTile = 8;  // outputs of a thread

// products [parts, samples, outputs]: of `slice` inputs each; if there is one part they start from the bias. A thread
// has a sample, a part and kTile outputs; neighbours have neighbouring samples, so that they read the same weights.
KERNEL(128, 8)
stacked_products(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
                 const Borders from, float* __restrict__ products, uint32 samples, uint32 inputs, uint32 outputs,
                 uint32 slice) {
    const uint32 parts = (inputs + slice - 1) / slice;
    const uint64 i = item();
    const uint32 sample = static_cast<uint32>(i % samples);
    const uint32 part = static_cast<uint32>(i / samples) % parts;
    const uint32 first = static_cast<uint32>(i / samples) / parts * kTile;
    if (first >= outputs) return;
    const uint32 bucket = bucket_of(from, sample);
    const float* const row = x + static_cast<uint64>(sample) * inputs;
    const float* const w = weight + (static_cast<uint64>(bucket) * outputs + first) * inputs;
    const float* const b = bias + static_cast<uint64>(bucket) * outputs + first;
    float total[kTile];
    UNROLL
    for (uint32 o = 0; o < kTile; ++o) total[o] = parts == 1 && first + o < outputs ? b[o] : 0.0F;
    const uint32 end = inputs - part * slice < slice ? inputs : (part + 1) * slice;
    for (uint32 c = part * slice; c < end; c += WIDTH) {
        const Floats numbers = load_floats(row + c);
        Floats weights[kTile];
        UNROLL
        for (uint32 o = 0; o < kTile; ++o) {
            weights[o] = first + o < outputs ? load_floats(w + static_cast<uint64>(o) * inputs + c) : zeros();
        }
        UNROLL
        for (int k = 0; k < WIDTH; ++k) {
            UNROLL
            for (uint32 o = 0; o < kTile; ++o) total[o] = total[o] + numbers.at[k] * weights[o].at[k];
        }
    }
    float* const to = products + (static_cast<uint64>(part) * samples + sample) * outputs + first;
    UNROLL
    for (uint32 o = 0; o < kTile; ++o) {
        if (first + o < outputs) to[o] = total[o];
    }
}

// y = bias + the parts of `products`, in their order. A thread has a number of y.
KERNEL(128, 8)
stacked_join(const float* __restrict__ products, const float* __restrict__ bias, const Borders from,
             float* __restrict__ y, uint32 samples, uint32 outputs, uint32 parts) {
    const uint64 i = item();
    const uint64 size = static_cast<uint64>(samples) * outputs;
    if (i >= size) return;
    const uint32 sample = static_cast<uint32>(i / outputs);
    float total = bias[static_cast<uint64>(bucket_of(from, sample)) * outputs + i % outputs];
    UNROLL_BY(4)
    for (uint32 p = 0; p < parts; ++p) total = total + products[p * size + i];
    y[i] = total;
}

// The gradient of x. Blocks: (inputs / WIDTH; samples).
KERNEL(128, 8)
stacked_inputs(const float* __restrict__ gradient, const float* __restrict__ weight, const Borders from,
               float* __restrict__ out, uint32 samples, uint32 inputs, uint32 outputs) {
    const Place here = place();
    if (here.item >= samples || here.column >= inputs) return;
    const float* const slopes = gradient + static_cast<uint64>(here.item) * outputs;
    const float* const w = weight + static_cast<uint64>(bucket_of(from, here.item)) * outputs * inputs + here.column;
    Floats total = zeros();
    UNROLL_BY(4)
    for (uint32 o = 0; o < outputs; ++o) {
        add(total, scaled(load_floats(w + static_cast<uint64>(o) * inputs), slopes[o]));
    }
    store_floats(total, out + static_cast<uint64>(here.item) * inputs + here.column);
}

// The gradients of weight and bias: sums over the samples of each bucket, kSamples at a time. These pieces are numbered
// through all buckets. weights [pieces, outputs, inputs], biases [pieces, outputs].
constexpr uint32 kSamples = 64;

// Blocks: (inputs / WIDTH; pieces, for each kTile outputs).
KERNEL(128, 6)
stacked_pieces(const float* __restrict__ gradient, const float* __restrict__ x, const Borders from,
               const Borders pieces, float* __restrict__ weights, float* __restrict__ biases, uint32 inputs,
               uint32 outputs) {
    const Place here = place();
    const uint32 tiles = (outputs + kTile - 1) / kTile;
    const uint32 piece = here.item / tiles;
    const uint32 first = here.item % tiles * kTile;
    if (piece >= pieces.at[BUCKETS] || here.column >= inputs) return;
    const uint32 bucket = bucket_of(pieces, piece);
    const uint32 begin = begin_of(from, bucket) + (piece - begin_of(pieces, bucket)) * kSamples;
    const uint32 last = begin_of(from, bucket + 1);
    const uint32 end = last - begin < kSamples ? last : begin + kSamples;
    Floats total[kTile];
    float bias[kTile];
    UNROLL
    for (uint32 o = 0; o < kTile; ++o) total[o] = zeros(), bias[o] = 0.0F;
    for (uint32 sample = begin; sample < end; ++sample) {
        const Floats numbers = load_floats(x + static_cast<uint64>(sample) * inputs + here.column);
        const float* const slopes = gradient + static_cast<uint64>(sample) * outputs + first;
        UNROLL
        for (uint32 o = 0; o < kTile; ++o) {
            const float slope = first + o < outputs ? slopes[o] : 0.0F;
            add(total[o], scaled(numbers, slope));
            bias[o] = bias[o] + slope;
        }
    }
    UNROLL
    for (uint32 o = 0; o < kTile; ++o) {
        if (first + o >= outputs) continue;
        const uint64 row = static_cast<uint64>(piece) * outputs + first + o;
        store_floats(total[o], weights + row * inputs + here.column);
        if (here.column == 0) biases[row] = bias[o];
    }
}

// out [BUCKETS, columns]: the sums of each bucket's pieces [pieces, columns], in their order. Blocks: (columns / WIDTH;
// buckets).
KERNEL(128, 8)
stacked_sums(const float* __restrict__ sums, const Borders pieces, float* __restrict__ out, uint32 columns) {
    const Place here = place();
    if (here.item >= BUCKETS || here.column >= columns) return;
    const uint32 end = begin_of(pieces, here.item + 1);
    Floats total = zeros();
    UNROLL_BY(4)
    for (uint32 piece = begin_of(pieces, here.item); piece < end; ++piece) {
        add(total, load_floats(sums + static_cast<uint64>(piece) * columns + here.column));
    }
    store_floats(total, out + static_cast<uint64>(here.item) * columns + here.column);
}
