#pragma once

#include "borders.cuh"
#include "rounding.cuh"

// Layer stacks: a wide first layer and small layers after it. Each layer reads activations of the layer before; the
// last layer has one output. Each bucket of samples has a stack of its own.
//
// Set by whoever compiles, besides borders.cuh's:
//   HIDDEN  hidden layers, the wide one included; 0: the wide one is the last
//   ALL     1: the last layer sees the activations of all hidden layers, not of the last one alone
//   CUT     1: y, or y * y * square, is cut to the multiples of 1 / one below before it is clipped, as integers are

constexpr uint32 kLayers = HIDDEN + 1;
constexpr uint32 kTile = 8;  // outputs of a thread

// Activations of a hidden layer's outputs y, of the first `active` ones; all are clipped to 0 .. highest
constexpr uint32 kClipped = 0;  // y
constexpr uint32 kSquared = 1;  // y, squared when it is clipped
constexpr uint32 kBoth = 2;     // y * y * square of all, then y of all

struct Hidden {
    uint32 outputs, active, kind;
    uint32 begin;  // of its outputs in a sample's row of `kept`, and of their gradients in `slopes`; a multiple of 4
    float square;
};

struct Form {
    Hidden hidden[HIDDEN > 0 ? HIDDEN : 1];
    float highest;
    uint32 row;   // numbers in a sample's row of `kept`. One of `slopes` has 4 more: first the gradient of the result
    uint32 skip;  // outputs of the first layer that are added to the result: its last; 2: its last but one minus that
    float one;
};

// Of a layer, all buckets: weight [BUCKETS, outputs, inputs], bias [BUCKETS, outputs].
struct Parameters {
    const float* weight[kLayers];
    const float* bias[kLayers];
};

static __device__ __forceinline__ float clipped(float x, float highest) {
    if (x < 0.0F) return 0.0F;
    return x > highest ? highest : x;
}

static __device__ __forceinline__ float cut(float x, const Form& form) { return CUT ? floor_to_grid(x, form.one) : x; }

// Whether clipping passes the gradient. Of numbers that were rounded down it does at the ends, too, where many lie.
static __device__ __forceinline__ bool passes(float x, const Form& form) {
    return CUT ? x >= 0.0F && x <= form.highest : !(x <= 0.0F || x >= form.highest);
}

// The activation of output y. `second`: of kBoth the second kind.
static __device__ __forceinline__ float activation(const Hidden& hidden, float y, bool second, const Form& form) {
    if (hidden.kind == kBoth && !second) return clipped(cut(y * y * hidden.square, form), form.highest);
    const float x = clipped(cut(y, form), form.highest);
    return hidden.kind == kSquared ? x * x : x;
}

// The gradient of y from those of its activations. Rounding passes the gradient.
static __device__ __forceinline__ float slope(const Hidden& hidden, float y, float first, float second,
                                              const Form& form) {
    const float x = cut(y, form);
    const bool inside = passes(x, form);
    if (hidden.kind == kClipped) return inside ? first : 0.0F;
    if (hidden.kind == kSquared) return inside ? first * (2.0F * x) : 0.0F;
    const float square = cut(y * y * hidden.square, form);
    const float of_square = passes(square, form) ? first * hidden.square * (2.0F * y) : 0.0F;
    return of_square + (inside ? second : 0.0F);
}

static __device__ __forceinline__ uint32 activations(const Hidden& hidden) {
    return hidden.kind == kBoth ? 2 * hidden.active : hidden.active;
}

static __device__ __forceinline__ uint32 outputs_of(const Form& form, uint32 layer) {
    return layer + 1 < kLayers ? form.hidden[layer].outputs : 1;
}

// The first hidden layer whose activations a small layer reads. It reads those of all layers from there to its own.
static __device__ __forceinline__ uint32 first_seen(uint32 layer) { return ALL && layer == HIDDEN ? 0 : layer - 1; }

static __device__ __forceinline__ uint32 inputs_of(const Form& form, uint32 layer) {
    uint32 inputs = 0;
    UNROLL
    for (uint32 seen = first_seen(layer); seen < layer; ++seen) inputs += activations(form.hidden[seen]);
    return inputs;
}

// Where a layer's gradients lie in a row of `slopes`.
static __device__ __forceinline__ uint32 slopes_of(const Form& form, uint32 layer) {
    return layer + 1 < kLayers ? form.hidden[layer].begin : form.row;
}
