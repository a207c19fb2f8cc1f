#pragma once

#include <cstddef>
#include <cstdint>

// The order in which gradients are added up (I2): along a fixed binary tree.
//
// Leaves are numbered 0, 1, 2 ... A node of level L covers the 2^L leaves from a multiple of 2^L on and is the sum of
// its two halves, left + right. Where one half holds none of the sources the node is the other half: so what a node is
// depends on nothing outside it. A sum of a node's sources may stand for them, at the leaf of any of them.
//
// For kernel files too: no std templates (kernels.h), and each file has copies of its own.
namespace sparsepool {

constexpr std::size_t kTreeDepth = 32;  // sums that wait at a time, at most: one for each bit of a leaf

// Level of the smallest node that holds two leaves.
static inline std::uint8_t tree_level(std::uint32_t left, std::uint32_t right) {
    return static_cast<std::uint8_t>(32 - __builtin_clz(left ^ right));
}

// joins[s]: after source s, how many times the newest two sums become one. `leaves` ascend.
static inline void find_joins(const std::uint32_t* leaves, std::size_t count, std::uint8_t* joins) {
    std::uint8_t levels[kTreeDepth];  // of the nodes in which the sums that wait will be joined, falling
    std::size_t waiting = 0;
    for (std::size_t s = 0; s < count; ++s) {
        const std::uint8_t next = s + 1 < count ? tree_level(leaves[s], leaves[s + 1]) : std::uint8_t{kTreeDepth + 1};
        joins[s] = 0;
        while (waiting > 0 && levels[waiting - 1] < next) {
            --waiting;
            ++joins[s];
        }
        if (s + 1 < count) levels[waiting++] = next;
    }
}

}  // namespace sparsepool
