#pragma once

// Numbers in kernels: float32 or bfloat16 in memory, float32 in registers.
//
// Kernels use threads, blocks and plain loads and stores, nothing else of CUDA, so that tests compile the same files as
// C++ (tests/pool/kernels/cuda/shim.h). Every thread computes its results by itself, in the order of the source: grid
// and block sizes change nothing. Multiply and add are not contracted (pool/kernels/cuda/compiler.py).
//
// Defined by the compiler's options:
//   BFLOAT16  1: numbers are bfloat16, rounded to nearest even when they are stored
//   WIDTH     how many numbers a thread loads at a time: 16 bytes, or 1 number for rows of other lengths

#define KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define UNROLL _Pragma("unroll")
#define PRAGMA(words) _Pragma(#words)
#define UNROLL_BY(n) PRAGMA(unroll n)

using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;

// WIDTH numbers of any of the types below.
struct Floats {
    float at[WIDTH];
};

static __device__ __forceinline__ Floats zeros() {
    Floats out;
    UNROLL
    for (int i = 0; i < WIDTH; ++i) out.at[i] = 0.0F;
    return out;
}

static __device__ __forceinline__ void add(Floats& total, const Floats& numbers) {
    UNROLL
    for (int i = 0; i < WIDTH; ++i) total.at[i] = total.at[i] + numbers.at[i];
}

static __device__ __forceinline__ Floats scaled(const Floats& numbers, float factor) {
    Floats out;
    UNROLL
    for (int i = 0; i < WIDTH; ++i) out.at[i] = numbers.at[i] * factor;
    return out;
}

// Load and store float32, whatever BFLOAT16 is. Pointers are multiples of 4 * WIDTH bytes.
static __device__ __forceinline__ Floats load_floats(const float* from) {
    Floats out;
#if WIDTH % 4 == 0
    UNROLL
    for (int i = 0; i < WIDTH; i += 4) {
        const float4 raw = *reinterpret_cast<const float4*>(from + i);
        out.at[i] = raw.x, out.at[i + 1] = raw.y, out.at[i + 2] = raw.z, out.at[i + 3] = raw.w;
    }
#else
    out.at[0] = *from;
#endif
    return out;
}

static __device__ __forceinline__ void store_floats(const Floats& numbers, float* to) {
#if WIDTH % 4 == 0
    UNROLL
    for (int i = 0; i < WIDTH; i += 4) {
        float4 raw;
        raw.x = numbers.at[i], raw.y = numbers.at[i + 1], raw.z = numbers.at[i + 2], raw.w = numbers.at[i + 3];
        *reinterpret_cast<float4*>(to + i) = raw;
    }
#else
    *to = numbers.at[0];
#endif
}

static __device__ __forceinline__ float from_bfloat16(uint32 bits) { return __uint_as_float(bits << 16); }

// Loads bfloat16, whatever BFLOAT16 is. The pointer is a multiple of 2 * WIDTH bytes.
static __device__ __forceinline__ Floats load_narrow(const uint16* from) {
    Floats out;
#if WIDTH == 8
    const uint4 raw = *reinterpret_cast<const uint4*>(from);
    const uint32 words[4] = {raw.x, raw.y, raw.z, raw.w};
    UNROLL
    for (int i = 0; i < 4; ++i) {
        out.at[2 * i] = from_bfloat16(words[i] & 0xFFFFU);
        out.at[2 * i + 1] = from_bfloat16(words[i] >> 16);
    }
#elif WIDTH % 4 == 0
    UNROLL
    for (int i = 0; i < WIDTH; i += 4) {
        const uint2 raw = *reinterpret_cast<const uint2*>(from + i);
        out.at[i] = from_bfloat16(raw.x & 0xFFFFU), out.at[i + 1] = from_bfloat16(raw.x >> 16);
        out.at[i + 2] = from_bfloat16(raw.y & 0xFFFFU), out.at[i + 3] = from_bfloat16(raw.y >> 16);
    }
#else
    out.at[0] = from_bfloat16(*from);
#endif
    return out;
}

#if BFLOAT16

using Number = uint16;

static __device__ __forceinline__ uint32 to_bfloat16(float number) {
    const uint32 bits = __float_as_uint(number);
    const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
    if (is_nan) return (bits >> 16) | 0x40U;  // quiet
    // Adding 0x7FFF, and 1 if the lowest bit that stays is set, carries where the lower half rounds up.
    return (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
}

static __device__ __forceinline__ Floats load(const Number* from) { return load_narrow(from); }

static __device__ __forceinline__ void store(const Floats& numbers, Number* to) {
#if WIDTH == 8
    uint32 words[4];
    UNROLL
    for (int i = 0; i < 4; ++i) {
        words[i] = to_bfloat16(numbers.at[2 * i]) | (to_bfloat16(numbers.at[2 * i + 1]) << 16);
    }
    uint4 raw;
    raw.x = words[0], raw.y = words[1], raw.z = words[2], raw.w = words[3];
    *reinterpret_cast<uint4*>(to) = raw;
#else
    *to = static_cast<Number>(to_bfloat16(numbers.at[0]));
#endif
}

#else

using Number = float;

static __device__ __forceinline__ Floats load(const Number* from) { return load_floats(from); }
static __device__ __forceinline__ void store(const Floats& numbers, Number* to) { store_floats(numbers, to); }

#endif

// The item that this thread works on, such as a row, and the first of the WIDTH columns.
struct WorkItem {
    uint32 item, column;
};

static __device__ __forceinline__ WorkItem work_item() {
    return {blockIdx.x * blockDim.y + threadIdx.y, (blockIdx.y * blockDim.x + threadIdx.x) * WIDTH};
}

// The number of this thread, for kernels with one item a thread: there may be more than 2^32.
static __device__ __forceinline__ uint64 item() {
    return (static_cast<uint64>(blockIdx.x) * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
