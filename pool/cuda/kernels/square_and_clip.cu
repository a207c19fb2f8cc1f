#include "numbers.cuh"

// Both activations of a stack's layer: of y [samples, outputs] the first `used` columns' squares times `factor`, then
// they themselves, all clipped to 0 .. highest: [samples, 2 * used].

static __device__ __forceinline__ float clipped(float x, float highest) {
    return x < 0.0F ? 0.0F : x > highest ? highest : x;
}

// A thread has a number of the result.
KERNEL(128, 8)
square_and_clip(const float* __restrict__ y, float* __restrict__ out, float factor, float highest, uint32 samples,
                uint32 outputs, uint32 used) {
    const uint64 i = item();
    if (i >= static_cast<uint64>(samples) * 2 * used) return;
    const uint32 column = static_cast<uint32>(i % (2 * used));
    const float x = y[i / (2 * used) * outputs + column % used];
    out[i] = clipped(column < used ? x * x * factor : x, highest);
}

// The gradient of y: zeros beyond `used`. A thread has a number of y.
KERNEL(128, 8)
square_and_clip_backward(const float* __restrict__ gradient, const float* __restrict__ y, float* __restrict__ out,
                         float factor, float highest, uint32 samples, uint32 outputs, uint32 used) {
    const uint64 i = item();
    if (i >= static_cast<uint64>(samples) * outputs) return;
    const uint32 column = static_cast<uint32>(i % outputs);
    if (column >= used) {
        out[i] = 0.0F;
        return;
    }
    const float x = y[i];
    const float square = x * x * factor;
    const float* const slopes = gradient + i / outputs * 2 * used + column;
    const float of_square = square <= 0.0F || square >= highest ? 0.0F : slopes[0] * factor * (2.0F * x);
    const float of_itself = x <= 0.0F || x >= highest ? 0.0F : slopes[used];
    out[i] = of_square + of_itself;
}
