#pragma once

#include "numbers.cuh"

// Samples ordered by bucket.
//
// Set by whoever compiles, besides numbers.cuh's: BUCKETS.

// The samples of bucket b are at[b] to below at[b + 1].
struct Borders {
    uint32 at[BUCKETS + 1];
};

static __device__ __forceinline__ uint32 bucket_of(const Borders& from, uint32 sample) {
    uint32 bucket = 0;
    UNROLL
    for (uint32 b = 1; b < BUCKETS; ++b) bucket += sample >= from.at[b] ? 1 : 0;
    return bucket;
}

static __device__ __forceinline__ uint32 begin_of(const Borders& from, uint32 bucket) {
    uint32 begin = 0;
    UNROLL
    for (uint32 b = 0; b <= BUCKETS; ++b) {  // not indexed by a variable: that would copy `from` to every thread
        if (b == bucket) begin = from.at[b];
    }
    return begin;
}
