#include "stacks.cuh"

// Of layer stacks the products with the wide layer, x [samples, inputs], and the gradients of all parameters. WIDTH is
// that of rows of x.

// products [parts, outputs, samples]: of `slice` inputs each. A thread has a sample, a part and kTile outputs;
// neighbours have neighbouring samples, so that they read the same weights.
KERNEL(128, 6)
stacked_products(const float* __restrict__ x, const float* __restrict__ weight, const Borders from,
                 float* __restrict__ products, uint32 samples, uint32 inputs, uint32 outputs, uint32 slice) {
    const uint32 parts = (inputs + slice - 1) / slice;
    const uint64 i = item();
    const uint32 sample = static_cast<uint32>(i % samples);
    const uint32 part = static_cast<uint32>(i / samples) % parts;
    const uint32 first = static_cast<uint32>(i / samples) / parts * kTile;
    if (first >= outputs) return;
    const uint32 bucket = bucket_of(from, sample);
    const float* const row = x + static_cast<uint64>(sample) * inputs;
    const float* const w = weight + (static_cast<uint64>(bucket) * outputs + first) * inputs;
    float total[kTile];
    UNROLL
    for (uint32 o = 0; o < kTile; ++o) total[o] = 0.0F;
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
    float* const to = products + (static_cast<uint64>(part) * outputs + first) * samples + sample;
    UNROLL
    for (uint32 o = 0; o < kTile; ++o) {
        if (first + o < outputs) to[static_cast<uint64>(o) * samples] = total[o];
    }
}

// The gradient of x. slopes: rows of `stride` that begin with the gradients of the layer's outputs. Blocks:
// (inputs / WIDTH; samples).
KERNEL(128, 8)
stacked_inputs(const float* __restrict__ slopes, const float* __restrict__ weight, const Borders from,
               float* __restrict__ out, uint32 samples, uint32 inputs, uint32 outputs, uint32 stride) {
    const WorkItem work = work_item();
    if (work.item >= samples || work.column >= inputs) return;
    const float* const own = slopes + static_cast<uint64>(work.item) * stride;
    const float* const w = weight + static_cast<uint64>(bucket_of(from, work.item)) * outputs * inputs + work.column;
    Floats total = zeros();
    UNROLL_BY(4)
    for (uint32 o = 0; o < outputs; ++o) {
        add(total, scaled(load_floats(w + static_cast<uint64>(o) * inputs), own[o]));
    }
    store_floats(total, out + static_cast<uint64>(work.item) * inputs + work.column);
}

// The gradients of weights and biases: sums over the samples of each bucket, kSamples at a time. These pieces are
// numbered through all buckets. Parameters: weight and bias of each layer in turn; parameter p has columns.at[p] to
// below columns.at[p + 1] of all the numbers that a stack has, and its sums are a matrix [pieces, its columns] that
// begins at pieces * columns.at[p].
constexpr uint32 kSamples = 64;
constexpr uint32 kParameters = 2 * kLayers;

struct Columns {
    uint32 at[kParameters + 1];
};

// Samples `begin` to below `end`, of piece number `at` of `pieces`.
struct Piece {
    uint32 begin, end, at, pieces;
};

static __device__ __forceinline__ Piece piece_at(const Borders& from, const Borders& pieces, uint32 at) {
    const uint32 bucket = bucket_of(pieces, at);
    const uint32 begin = begin_of(from, bucket) + (at - begin_of(pieces, bucket)) * kSamples;
    const uint32 last = begin_of(from, bucket + 1);
    return {begin, last - begin < kSamples ? last : begin + kSamples, at, pieces.at[BUCKETS]};
}

static __device__ __forceinline__ float* place_of(float* sums, const Columns& columns, uint32 parameter,
                                                  const Piece& piece) {
    const uint32 width = columns.at[parameter + 1] - columns.at[parameter];
    return sums + static_cast<uint64>(piece.pieces) * columns.at[parameter] + static_cast<uint64>(piece.at) * width;
}

// Of kTile outputs of the wide layer, from number `first` on.
static __device__ __forceinline__ void wide_piece(const float* x, const float* slopes, const Piece& piece,
                                                  float* weights, float* biases, uint32 column, uint32 first,
                                                  uint32 inputs, uint32 outputs, uint32 stride) {
    Floats total[kTile];
    float bias[kTile];
    UNROLL
    for (uint32 o = 0; o < kTile; ++o) total[o] = zeros(), bias[o] = 0.0F;
    for (uint32 sample = piece.begin; sample < piece.end; ++sample) {
        const Floats numbers = load_floats(x + static_cast<uint64>(sample) * inputs + column);
        const float* const own = slopes + static_cast<uint64>(sample) * stride + first;
        UNROLL
        for (uint32 o = 0; o < kTile; ++o) {
            const float gradient = first + o < outputs ? own[o] : 0.0F;
            add(total[o], scaled(numbers, gradient));
            bias[o] = bias[o] + gradient;
        }
    }
    UNROLL
    for (uint32 o = 0; o < kTile; ++o) {
        if (first + o >= outputs) continue;
        store_floats(total[o], weights + static_cast<uint64>(first + o) * inputs + column);
        if (column == 0) biases[first + o] = bias[o];
    }
}

// The same of a layer behind it, of one input: activation `column` of what the layer sees.
static __device__ __forceinline__ void small_piece(uint32 layer, const Form& form, const float* kept,
                                                   const float* slopes, const Piece& piece, float* weights,
                                                   float* biases, uint32 column, uint32 first) {
    const uint32 inputs = inputs_of(form, layer), outputs = outputs_of(form, layer);
    const uint32 stride = form.row + 4;
    if (column >= inputs) return;
    Hidden hidden = form.hidden[0];
    uint32 at = column;  // among the activations of `of`
    UNROLL
    for (uint32 seen = first_seen(layer), before = 0; seen < layer; ++seen) {
        if (column >= before) hidden = form.hidden[seen], at = column - before;
        before += activations(form.hidden[seen]);
    }
    const bool second = at >= hidden.active;
    const float* const y = kept + hidden.begin + (second ? at - hidden.active : at);
    const float* const own = slopes + slopes_of(form, layer) + first;
    float total[kTile];
    float bias[kTile];
    UNROLL
    for (uint32 o = 0; o < kTile; ++o) total[o] = 0.0F, bias[o] = 0.0F;
    for (uint32 sample = piece.begin; sample < piece.end; ++sample) {
        const float number = activation(hidden, y[static_cast<uint64>(sample) * form.row], second, form);
        UNROLL
        for (uint32 o = 0; o < kTile; ++o) {
            const float gradient = first + o < outputs ? own[static_cast<uint64>(sample) * stride + o] : 0.0F;
            total[o] = total[o] + number * gradient;
            bias[o] = bias[o] + gradient;
        }
    }
    UNROLL
    for (uint32 o = 0; o < kTile; ++o) {
        if (first + o >= outputs) continue;
        weights[static_cast<uint64>(first + o) * inputs + column] = total[o];
        if (column == 0) biases[first + o] = bias[o];
    }
}

// Blocks: (inputs / WIDTH, but at least the inputs of each other layer; pieces, for each kTile outputs of each layer).
KERNEL(128, 6)
stacked_pieces(const float* __restrict__ x, const float* __restrict__ kept, const float* __restrict__ slopes,
               const Form form, const Borders from, const Borders pieces, const Columns columns,
               float* __restrict__ sums, uint32 inputs) {
    const WorkItem work = work_item();
    uint32 tiles = 0;
    UNROLL
    for (uint32 layer = 0; layer < kLayers; ++layer) tiles += (outputs_of(form, layer) + kTile - 1) / kTile;
    if (work.item / tiles >= pieces.at[BUCKETS]) return;
    const Piece piece = piece_at(from, pieces, work.item / tiles);
    uint32 tile = work.item % tiles;
    UNROLL
    for (uint32 layer = 0; layer < kLayers; ++layer) {
        const uint32 outputs = outputs_of(form, layer), own = (outputs + kTile - 1) / kTile;
        if (tile < own) {
            float* const weights = place_of(sums, columns, 2 * layer, piece);
            float* const biases = place_of(sums, columns, 2 * layer + 1, piece);
            if (layer > 0) {
                small_piece(layer, form, kept, slopes, piece, weights, biases, work.column / WIDTH, tile * kTile);
            } else if (work.column < inputs) {
                wide_piece(x, slopes, piece, weights, biases, work.column, tile * kTile, inputs, outputs, form.row + 4);
            }
            return;
        }
        tile -= own;
    }
}

// Of each parameter, [BUCKETS, its columns].
struct Gradients {
    float* at[kParameters];
};

// The sums of each bucket's pieces, in their order; those of the wide layer's weight times `factor`. A thread has a
// number of the result.
KERNEL(128, 8)
stacked_sums(const float* __restrict__ sums, const Borders pieces, const Columns columns, const Gradients out,
             float factor) {
    const uint64 i = item();
    const uint32 all = columns.at[kParameters];
    if (i >= static_cast<uint64>(all) * BUCKETS) return;
    const uint32 bucket = static_cast<uint32>(i / all), column = static_cast<uint32>(i % all);
    uint32 begin = 0, width = 0;
    float* to = nullptr;
    UNROLL
    for (uint32 p = 0; p < kParameters; ++p) {
        if (column < columns.at[p]) continue;
        begin = columns.at[p], width = columns.at[p + 1] - begin, to = out.at[p];
    }
    const float* from = sums + static_cast<uint64>(pieces.at[BUCKETS]) * begin + (column - begin);
    const uint32 end = begin_of(pieces, bucket + 1);
    float total = 0.0F;
    UNROLL_BY(4)
    for (uint32 piece = begin_of(pieces, bucket); piece < end; ++piece) {
        total = total + from[static_cast<uint64>(piece) * width];
    }
    to[static_cast<uint64>(bucket) * width + (column - begin)] = begin == 0 ? total * factor : total;
}

// The gradients of what all buckets share of the wide layer: sums over the buckets. A thread has a number of the
// result.
KERNEL(128, 8)
shared_sums(const float* __restrict__ weights, const float* __restrict__ biases, float* __restrict__ weight,
            float* __restrict__ bias, uint32 numbers, uint32 outputs) {
    const uint64 i = item();
    if (i >= numbers + outputs) return;
    const bool is_bias = i >= numbers;
    const float* const from = is_bias ? biases + (i - numbers) : weights + i;
    float total = 0.0F;
    UNROLL
    for (uint32 b = 0; b < BUCKETS; ++b) total = total + from[static_cast<uint64>(b) * (is_bias ? outputs : numbers)];
    (is_bias ? bias + (i - numbers) : weight + i)[0] = total;
}
