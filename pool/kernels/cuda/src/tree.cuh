#pragma once

#include "kernels/rules.cuh"
#include "numbers.cuh"

// Sums along the tree (I2), of at most LEAVES sources, a power of two. Source s stands at
// place s; one that is not there adds nothing, and its sibling stands for both.
//
// Set by whoever compiles: LEAVES; NARROW, 1: sources may be bfloat16, which are widened as they are read.

// A sum, and whether anything was added to it.
struct Node {
    Floats sum;
    bool there;
};

static __device__ __forceinline__ Node joined(const Node& left, const Node& right) {
    Node out = left;
    if (left.there && right.there) {
        add(out.sum, right.sum);
    } else if (right.there) {
        out = right;
    }
    return out;
}

struct Join {
    __device__ __forceinline__ Node operator()(const Node& left, const Node& right) const {
        return joined(left, right);
    }
};

// Gradients by place; null: there is none. Dense ones are as large as what they are of; of a table they are the rows
// that a batch touched, one after the other.
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

// WIDTH numbers of a source, number s, from one on.
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
static __device__ __forceinline__ Floats sum_dense(const Sources& sources, uint64 place) {
    const auto leaf = [&](int s) -> Node {
        const auto* source = sources.at[s];
        return {source ? load_source(sources, s, source, place) : zeros(), source != nullptr};
    };
    return rules::Tree<LEAVES>::sum(leaf, Join{}, 0).sum;
}

// The same of a table's row; found[s * rows + row]: which of source s's rows it is, from 1; 0: not touched. Like the
// CPU's (pool/kernels/cpu/reduce/kernels.cpp) it is never -0.0.
static __device__ __forceinline__ Node sum_row(const Sources& sources, const uint32* found, uint32 rows, uint32 columns,
                                               Place here) {
    constexpr bool kAhead = LEAVES <= 16;  // of more, all numbers at a time would need too many registers
    const auto number_of = [&](int s) -> uint32 {
        return sources.at[s] ? found[static_cast<uint64>(s) * rows + here.item] : 0;
    };
    uint32 ahead[LEAVES];
    UNROLL
    for (int s = 0; s < LEAVES; ++s) ahead[s] = kAhead ? number_of(s) : 0;
    const auto row = [&](int s) -> Node {
        const uint32 number = kAhead ? ahead[s] : number_of(s);
        if (number == 0) return {zeros(), false};
        const uint64 place = static_cast<uint64>(number - 1) * columns + here.column;
        return {load_source(sources, s, sources.at[s], place), true};
    };
    Node sum = rules::Tree<LEAVES>::sum(row, Join{}, 0);
    UNROLL
    for (int i = 0; i < WIDTH; ++i) sum.sum.at[i] = 0.0F + sum.sum.at[i];
    return sum;
}
