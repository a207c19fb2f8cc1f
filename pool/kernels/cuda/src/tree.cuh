#pragma once

#include "kernels/rules.cuh"
#include "numbers.cuh"

// Sums along the tree (I2) of at most LEAVES sources, a power of two. Source s is leaf s. A leaf without a source adds
// nothing: its sibling stands for both.
//
// Defined by the compiler's options: LEAVES; NARROW, 1: sources may be bfloat16, which is widened as it is read.

// A sum, and whether anything was added to it.
struct Node {
    Floats sum;
    bool is_defined;
};

static __device__ __forceinline__ Node join(const Node& left, const Node& right) {
    Node out = left;
    if (left.is_defined && right.is_defined) {
        add(out.sum, right.sum);
    } else if (right.is_defined) {
        out = right;
    }
    return out;
}

struct Join {
    __device__ __forceinline__ Node operator()(const Node& left, const Node& right) const { return join(left, right); }
};

// Gradients by leaf; null: none. Those of a table are the rows that a batch touched, one after another.
struct Sources {
#if NARROW
    using Source = const void*;
#else
    using Source = const float*;
#endif
    Source at[LEAVES];
#if NARROW
    uint32 narrow[(LEAVES + 31) / 32];  // bit s % 32 of word s / 32: source s is bfloat16
#endif
};

// Loads WIDTH numbers of source s, from `number` on.
static __device__ __forceinline__ Floats load_source([[maybe_unused]] const Sources& sources, [[maybe_unused]] int s,
                                                     Sources::Source source, uint64 number) {
#if NARROW
    const uint32 narrow = sources.narrow[s / 32] >> s % 32 & 1;
    const char* from = static_cast<const char*>(source) + (number << (2 - narrow));
    if (narrow) return load_narrow(reinterpret_cast<const uint16*>(from));
    return load_floats(reinterpret_cast<const float*>(from));
#else
    return load_floats(source + number);
#endif
}

// The sum of dense gradients.
static __device__ __forceinline__ Floats sum_dense(const Sources& sources, uint64 first) {
    const auto leaf = [&](int s) -> Node {
        const auto* source = sources.at[s];
        return {source ? load_source(sources, s, source, first) : zeros(), source != nullptr};
    };
    return rules::Tree<LEAVES>::sum(leaf, Join{}, 0).sum;
}

// The same for a row of a table. row_numbers[s * rows + row]: the row's index among source s's rows, from 1; 0: not
// touched. Like the CPU's sum (pool/kernels/cpu/reduce/kernels.cpp) it is never -0.0.
static __device__ __forceinline__ Node sum_row(const Sources& sources, const uint32* row_numbers, uint32 rows,
                                               uint32 columns, WorkItem work) {
    constexpr bool kAhead = LEAVES <= 16;  // load all row numbers first; for more leaves registers do not suffice
    const auto number_of = [&](int s) -> uint32 {
        return sources.at[s] ? row_numbers[static_cast<uint64>(s) * rows + work.item] : 0;
    };
    uint32 ahead[LEAVES];
    UNROLL
    for (int s = 0; s < LEAVES; ++s) ahead[s] = kAhead ? number_of(s) : 0;
    const auto row = [&](int s) -> Node {
        const uint32 number = kAhead ? ahead[s] : number_of(s);
        if (number == 0) return {zeros(), false};
        const uint64 first = static_cast<uint64>(number - 1) * columns + work.column;
        return {load_source(sources, s, sources.at[s], first), true};
    };
    Node sum = rules::Tree<LEAVES>::sum(row, Join{}, 0);
    UNROLL
    for (int i = 0; i < WIDTH; ++i) sum.sum.at[i] = 0.0F + sum.sum.at[i];
    return sum;
}
