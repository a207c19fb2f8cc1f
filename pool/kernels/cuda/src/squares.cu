#include "kernels/rules.cuh"
#include "numbers.cuh"

// The squares of a gradient's numbers, added up in double precision: of chunks, then of chunks of their sums. WIDTH
// is 1.

// A thread has a chunk.
KERNEL(128, 8) square_chunks(const float* __restrict__ from, double* __restrict__ sums, uint64 size) {
    const uint64 begin = item() * rules::kNormChunk;
    if (begin >= size) return;
    const float* numbers = from + begin;
    const auto square = [=](unsigned i) {
        const double number = numbers[i];
        return number * number;
    };
    const uint64 left = size - begin;
    sums[item()] =
        rules::sum_of_chunk(square, left < rules::kNormChunk ? static_cast<unsigned>(left) : rules::kNormChunk);
}

KERNEL(128, 8) sum_chunks(const double* __restrict__ from, double* __restrict__ sums, uint64 size) {
    const uint64 begin = item() * rules::kNormChunk;
    if (begin >= size) return;
    const double* numbers = from + begin;
    const uint64 left = size - begin;
    sums[item()] = rules::sum_of_chunk([=](unsigned i) { return numbers[i]; },
                                       left < rules::kNormChunk ? static_cast<unsigned>(left) : rules::kNormChunk);
}
