#include "numbers.cuh"

// Finds out whether the numbers of several tensors are finite, as they are or rounded.
//
// Set by whoever compiles, besides numbers.cuh's: TENSORS, how many there are. BFLOAT16 is 0, WIDTH is 1.

struct Tensors {
    const float* at[TENSORS];
    uint64 size[TENSORS];
    uint64 first[TENSORS];  // each tensor's first item
    uint32 limit[TENSORS];  // bits of the smallest positive number that counts as infinite
};

constexpr uint32 kLanes = 32;
constexpr uint32 kTimes = 8;
constexpr uint32 kNumbers = kLanes * kTimes;  // of kLanes items, which read neighbouring numbers

// found[t] = `batch` if a number of tensor t is a NaN, or as large as its limit. (Threads that store at the same place
// store the same.) Items behind those of the tensors: `count` losses, copied to `to`.
KERNEL(128, 8)
find_infinite(const Tensors tensors, uint32* __restrict__ found, uint64 items, uint32 batch,
              const uint32* __restrict__ losses, uint32* __restrict__ to, uint32 count) {
    const uint64 i = item();
    if (i >= items) {
        if (i - items < count) to[i - items] = losses[i - items];
        return;
    }
    const float* numbers = nullptr;
    uint64 size = 0, first = 0;
    uint32 which = 0, limit = 0;
    UNROLL
    for (uint32 t = 0; t < TENSORS; ++t) {
        if (i < tensors.first[t]) continue;
        numbers = tensors.at[t], size = tensors.size[t], first = tensors.first[t], limit = tensors.limit[t], which = t;
    }
    const uint64 begin = (i - first) / kLanes * kNumbers + (i - first) % kLanes;
    uint32 bits[kTimes];
    UNROLL
    for (uint32 k = 0; k < kTimes; ++k) {
        const uint64 at = begin + static_cast<uint64>(k) * kLanes;
        bits[k] = at < size ? __float_as_uint(numbers[at]) : 0;
    }
    bool infinite = false;
    UNROLL
    for (uint32 k = 0; k < kTimes; ++k) infinite |= (bits[k] & 0x7FFFFFFFU) >= limit;
    if (infinite) found[which] = batch;
}
