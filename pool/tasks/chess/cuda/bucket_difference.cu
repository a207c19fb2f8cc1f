#include "borders.cuh"
#include "list_sums.cuh"

// Of a sparse layer with an output for each bucket: half the difference of two perspectives' sums, in the column of the
// sample's bucket. Bags 0 .. samples are the own perspectives, the others the opponents'. WIDTH is 1.

// A thread has a sample, of each row in its bags one number.
KERNEL(128, 8)
bucket_difference(const Number* __restrict__ table, const INDEX* __restrict__ numbers,
                  const uint32* __restrict__ offsets, const Borders from, float* __restrict__ out, uint32 samples) {
    const uint64 i = item();
    if (i >= samples) return;
    const uint32 sample = static_cast<uint32>(i);
    const uint32 bucket = bucket_of(from, sample);
    const Lists all{table, numbers, nullptr, BUCKETS};
    Floats own = zeros();
    Floats opponent = zeros();
    all.add_up(own, offsets[sample], offsets[sample + 1], bucket);
    all.add_up(opponent, offsets[samples + sample], offsets[samples + sample + 1], bucket);
    out[i] = (own.at[0] - opponent.at[0]) * 0.5F;
}

// gradient [samples] -> out [2 * samples, BUCKETS]: of the sums. A thread has a number of `out`.
KERNEL(128, 8)
bucket_difference_backward(const float* __restrict__ gradient, const Borders from, float* __restrict__ out,
                           uint32 samples) {
    const uint64 i = item();
    const uint64 half = static_cast<uint64>(samples) * BUCKETS;
    if (i >= 2 * half) return;
    const uint32 sample = static_cast<uint32>(i / BUCKETS % samples);
    const float slope = gradient[sample] * 0.5F;
    const float signed_slope = i < half ? slope : 0.0F - slope;
    out[i] = i % BUCKETS == bucket_of(from, sample) ? signed_slope : 0.0F;
}
