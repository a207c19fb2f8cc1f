#pragma once

// What pool/kernels/cuda/src use of CUDA, as plain C++: blocks and threads are loops. Included before each of them.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict

struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct Indices {
    unsigned x, y, z;
};
static thread_local Indices blockIdx, blockDim, threadIdx, gridDim;

static inline float __uint_as_float(unsigned bits) {
    float out;
    std::memcpy(&out, &bits, sizeof out);
    return out;
}

static inline unsigned __float_as_uint(float number) {
    unsigned out;
    std::memcpy(&out, &number, sizeof out);
    return out;
}

namespace shim {

struct Kernel {
    const char* name;
    void (*call)(void** arguments);
    unsigned sizes[32];
    unsigned count;
};

// Of the source: defined behind it.
extern const Kernel kKernels[];
extern const unsigned kKernelCount;

template <auto kFunction>
struct Caller;

template <class... Arguments, void (*kFunction)(Arguments...)>
struct Caller<kFunction> {
    template <std::size_t... kAt>
    static void unpack(void** arguments, std::index_sequence<kAt...>) {
        kFunction(*static_cast<std::remove_const_t<Arguments>*>(arguments[kAt])...);
    }
    static void call(void** arguments) { unpack(arguments, std::index_sequence_for<Arguments...>()); }
    static constexpr Kernel kernel(const char* name) {
        return {name, call, {sizeof(Arguments)...}, sizeof...(Arguments)};
    }
};

}  // namespace shim

// 0: done; 1: no such kernel; 2: not its number of arguments; 3 and more: argument 0 and on has another size. Blocks
// and threads in order, or from the last to the first.
extern "C" __attribute__((visibility("default"))) int launch(const char* name, const unsigned* blocks,
                                                             const unsigned* threads, void** arguments,
                                                             const unsigned* sizes, unsigned count, int backward) {
    unsigned at = 0;
    while (at < shim::kKernelCount && std::strcmp(shim::kKernels[at].name, name) != 0) ++at;
    if (at == shim::kKernelCount) return 1;
    const shim::Kernel& kernel = shim::kKernels[at];
    if (count != kernel.count) return 2;
    for (unsigned i = 0; i < count; ++i) {
        if (sizes[i] != kernel.sizes[i]) return 3 + static_cast<int>(i);
    }
    gridDim = {blocks[0], blocks[1], 1};
    blockDim = {threads[0], threads[1], 1};
    const uint64_t block_count = uint64_t{blocks[0]} * blocks[1];
    const unsigned thread_count = threads[0] * threads[1];
    for (uint64_t b = 0; b < block_count; ++b) {
        const uint64_t block = backward ? block_count - 1 - b : b;
        blockIdx = {static_cast<unsigned>(block % blocks[0]), static_cast<unsigned>(block / blocks[0]), 0};
        for (unsigned t = 0; t < thread_count; ++t) {
            const unsigned thread = backward ? thread_count - 1 - t : t;
            threadIdx = {thread % threads[0], thread / threads[0], 0};
            kernel.call(arguments);
        }
    }
    return 0;
}
