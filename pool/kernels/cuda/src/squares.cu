#include "kernels/rules.cuh"
#include "numbers.cuh"

// Adds up the squares of a gradient's numbers in double precision: sums of chunks, then sums of chunks of these. WIDTH
// is 1.

// Each thread sums one chunk of the `size` numbers.
template <class Numbers>
static __device__ __forceinline__ void sum_own_chunk(const Numbers& number, double* sums, uint64 size) {
    const uint64 begin = item() * rules::kNormChunk;
    if (begin >= size) return;
    const uint64 remaining = size - begin;
    const unsigned count = remaining < rules::kNormChunk ? static_cast<unsigned>(remaining) : rules::kNormChunk;
    sums[item()] = rules::sum_of_chunk([&](unsigned i) { return number(begin + i); }, count);
}

KERNEL(128, 8) square_chunks(const float* __restrict__ from, double* __restrict__ sums, uint64 size) {
    const auto square = [=](uint64 i) {
        const double number = from[i];
        return number * number;
    };
    sum_own_chunk(square, sums, size);
}

KERNEL(128, 8) sum_chunks(const double* __restrict__ from, double* __restrict__ sums, uint64 size) {
    sum_own_chunk([=](uint64 i) { return from[i]; }, sums, size);
}
