#include "borders.cuh"

// Half the difference of two perspectives' sums, in the column of the sample's bucket. sums [2 * samples, BUCKETS]: all
// own perspectives, then all the opponents'.

// A thread has a sample.
KERNEL(128, 8)
bucket_difference(const float* __restrict__ sums, const Borders from, float* __restrict__ out, uint32 samples) {
    const uint64 sample = item();
    if (sample >= samples) return;
    const uint32 bucket = bucket_of(from, static_cast<uint32>(sample));
    out[sample] = (sums[sample * BUCKETS + bucket] - sums[(samples + sample) * BUCKETS + bucket]) * 0.5F;
}

// gradient [samples] -> out, as sums. A thread has a number of `out`.
KERNEL(128, 8)
bucket_difference_backward(const float* __restrict__ gradient, const Borders from, float* __restrict__ out,
                           uint32 samples) {
    const uint64 i = item();
    const uint64 half = static_cast<uint64>(samples) * BUCKETS;
    if (i >= 2 * half) return;
    const uint32 sample = static_cast<uint32>(i / BUCKETS % samples);
    const float slope = gradient[sample] * 0.5F;
    out[i] = i % BUCKETS != bucket_of(from, sample) ? 0.0F : i < half ? slope : 0.0F - slope;
}
