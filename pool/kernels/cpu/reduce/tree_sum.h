#pragma once

#include "base/vec.h"
#include "kernels/rules.cuh"
#include "reduce/kernels.h"
#include "reduce/tree.h"

// Sums along the tree (tree.h) in registers. A sum that waits for its right half lies on the stack.
namespace sparsepool {
namespace {

// Types that select an implementation of tree_sum by the shape of the tree.

// Any number of sources. The sum of none is zeros.
struct AnyTree {};

// N sources at all leaves of a node. A loop over them would cost more than the additions.
template <int N>
struct FullTree {};

// The two trees of three sources that rows of four batches have.
struct LeftPair {};   // (0 + 1) + 2
struct RightPair {};  // 0 + (1 + 2)

// Loads a vector of a source's numbers from index i on, or the first n numbers of the vector. All sources are of type
// Number.
template <class Number>
struct Load {
    static Vec load(const Source& source, std::size_t i) {
        return Vec::load(static_cast<const Number*>(source.numbers) + i);
    }
    static Vec load_part(const Source& source, std::size_t i, std::size_t n) {
        return Vec::load_part(static_cast<const Number*>(source.numbers) + i, n);
    }
};

// The same for sources of either type.
struct LoadAny {
    static Vec load(const Source& source, std::size_t i) {
        return source.bfloat16 ? Load<BFloat16>::load(source, i) : Load<float>::load(source, i);
    }
    static Vec load_part(const Source& source, std::size_t i, std::size_t n) {
        return source.bfloat16 ? Load<BFloat16>::load_part(source, i, n) : Load<float>::load_part(source, i, n);
    }
};

// Calls run(loader) with the loader for the sources' type. Done once for many rows.
template <class Run>
inline void dispatch_type(SourceType type, const Run& run) {
    switch (type) {
        case SourceType::kFloat32: run(Load<float>{}); break;
        case SourceType::kBFloat16: run(Load<BFloat16>{}); break;
        case SourceType::kMixed: run(LoadAny{}); break;
    }
}

// Calls run(tree) with the type above that fits the tree of the sources.
template <class Run>
inline void dispatch_tree(const TreeSources& from, const Run& run) {
    if (from.count == 1) {
        run(FullTree<1>{});
    } else if (from.count == 2) {
        run(FullTree<2>{});
    } else if (from.count == 3 && from.joins[1] == 1) {
        run(LeftPair{});
    } else if (from.count == 3) {
        run(RightPair{});
    } else if (from.count == 4 && from.joins[1] == 1 && from.joins[2] == 0) {
        run(FullTree<4>{});
    } else {
        run(AnyTree{});
    }
}

// The sum of the halves of a node.
struct Join {
    [[gnu::always_inline]] Vec operator()(Vec left, Vec right) const { return left + right; }
};

// total = the sum of the sources, kWide vectors side by side. load(source, v) loads vector v of a source.
template <std::size_t kWide, int N, class Load>
inline void tree_sum(FullTree<N>, const TreeSources& from, const Load& load, Vec (&total)[kWide]) {
    UNROLL
    for (std::size_t v = 0; v < kWide; ++v) {
        total[v] = rules::Tree<N>::sum([&](int s) INLINED { return load(from.sources[s], v); }, Join{}, 0);
    }
}

template <std::size_t kWide, class Load>
inline void tree_sum(LeftPair, const TreeSources& from, const Load& load, Vec (&total)[kWide]) {
    Vec pair[kWide];
    tree_sum(FullTree<2>{}, from, load, pair);
    UNROLL
    for (std::size_t v = 0; v < kWide; ++v) total[v] = pair[v] + load(from.sources[2], v);
}

template <std::size_t kWide, class Load>
inline void tree_sum(RightPair, const TreeSources& from, const Load& load, Vec (&total)[kWide]) {
    UNROLL
    for (std::size_t v = 0; v < kWide; ++v) {
        total[v] = load(from.sources[0], v) + (load(from.sources[1], v) + load(from.sources[2], v));
    }
}

template <std::size_t kWide, class Load>
inline void tree_sum(AnyTree, const TreeSources& from, const Load& load, Vec (&total)[kWide]) {
    if (from.count == 0) {
        UNROLL
        for (std::size_t v = 0; v < kWide; ++v) total[v] = Vec::zero();
        return;
    }
    Vec waiting[kTreeDepth][kWide];
    std::size_t depth = 0;
    for (std::size_t s = 0;; ++s) {
        const Source& left = from.sources[s];
        std::size_t joins = from.joins[s];
        const bool is_last = s + 1 == from.count;
        if (joins == 0 && !is_last && from.joins[s + 1] > 0) {  // the next source is the right half: add both at once
            const Source& right = from.sources[++s];
            joins = from.joins[s] - std::size_t{1};
            UNROLL
            for (std::size_t v = 0; v < kWide; ++v) total[v] = load(left, v) + load(right, v);
        } else {
            UNROLL
            for (std::size_t v = 0; v < kWide; ++v) total[v] = load(left, v);
        }
        for (; joins > 0; --joins) {
            --depth;
            UNROLL
            for (std::size_t v = 0; v < kWide; ++v) total[v] = waiting[depth][v] + total[v];
        }
        if (s + 1 == from.count) return;
        UNROLL
        for (std::size_t v = 0; v < kWide; ++v) waiting[depth][v] = total[v];
        ++depth;
    }
}

}  // namespace
}  // namespace sparsepool
