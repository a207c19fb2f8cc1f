#include "numbers.cuh"

// The sparse layer in the simplest way, to compare with: a block for each bag, backward by atomic additions into the
// whole table. Not part of the product; float32, numbers of 16 or 32 bits (INDEX).

KERNEL(128, 8) gather(const float* table, const INDEX* numbers, const uint32* offsets, float* out, uint32 columns) {
    const unsigned bag = blockIdx.x;
    for (unsigned column = threadIdx.x; column < columns; column += blockDim.x) {
        float sum = 0.0f;
        for (unsigned i = offsets[bag]; i < offsets[bag + 1]; ++i) {
            sum += table[static_cast<unsigned long long>(numbers[i]) * columns + column];
        }
        out[static_cast<unsigned long long>(bag) * columns + column] = sum;
    }
}

KERNEL(128, 8)
scatter(const float* gradient, const INDEX* numbers, const uint32* offsets, float* table, uint32 columns) {
    const unsigned bag = blockIdx.x;
    for (unsigned column = threadIdx.x; column < columns; column += blockDim.x) {
        const float value = gradient[static_cast<unsigned long long>(bag) * columns + column];
        for (unsigned i = offsets[bag]; i < offsets[bag + 1]; ++i) {
            atomicAdd(&table[static_cast<unsigned long long>(numbers[i]) * columns + column], value);
        }
    }
}
