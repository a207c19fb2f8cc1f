#pragma once

#include <cstddef>
#include <cstdint>

// The order in which gradients are added up (I2): along a fixed binary tree.
//
// Leaves are numbered 0, 1, 2 ... A node of level L covers 2^L leaves, from a multiple of 2^L on, and is the sum of its
// two halves, left + right. If one half has no source, the node equals the half that has: so a node depends on nothing
// outside it. The sum of a node's sources may stand for them, at the leaf of any of them.
//
// Kernel files include this: no std templates (kernels.h), and each file has a copy of its own.
namespace sparsepool {

constexpr std::size_t kTreeDepth = 32;  // max sums on the stack: one for each bit of a leaf's number

// Level of the smallest node that covers two leaves: the highest bit in which their numbers differ, counted from 1.
static inline std::uint8_t tree_level(std::uint32_t left, std::uint32_t right) {
    return static_cast<std::uint8_t>(32 - __builtin_clz(left ^ right));
}

// Plans the reduction with a stack of sums: source s is pushed, then the newest two sums are joined joins[s] times.
// `leaves` ascend.
static inline void find_joins(const std::uint32_t* leaves, std::size_t count, std::uint8_t* joins) {
    std::uint8_t join_levels[kTreeDepth];  // of the nodes that join neighbours on the stack; they fall
    std::size_t depth = 0;
    for (std::size_t s = 0; s < count; ++s) {
        const bool is_last = s + 1 == count;
        const std::uint8_t next_level = is_last ? std::uint8_t{kTreeDepth + 1} : tree_level(leaves[s], leaves[s + 1]);
        joins[s] = 0;
        while (depth > 0 && join_levels[depth - 1] < next_level) {
            --depth;
            ++joins[s];
        }
        if (!is_last) join_levels[depth++] = next_level;
    }
}

}  // namespace sparsepool
