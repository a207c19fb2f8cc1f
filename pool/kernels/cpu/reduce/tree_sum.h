#pragma once

#include "base/vec.h"
#include "kernels/rules.cuh"
#include "reduce/kernels.h"
#include "reduce/tree.h"

// Sums along the tree (tree.h) in registers; what waits for its other half lies on the stack.
namespace sparsepool {
namespace {

// Of sources in any number. Of none the sum is zeros.
struct AnyCount {};

// The first N sources, a whole node of the tree, where a loop over them would cost more than the additions.
template <int N>
struct Count {};

// The same for the shapes of a tree of three sources that rows of four batches have.
struct LeftPair {};   // (0 + 1) + 2
struct RightPair {};  // 0 + (1 + 2)

// How numbers are loaded from place i on, a vector or the first n of it: of sources that all hold the same, or of any.
template <class Number>
struct Of {
    static Vec load(const Source& source, std::size_t i) {
        return Vec::load(static_cast<const Number*>(source.numbers) + i);
    }
    static Vec load_part(const Source& source, std::size_t i, std::size_t n) {
        return Vec::load_part(static_cast<const Number*>(source.numbers) + i, n);
    }
};

struct OfAny {
    static Vec load(const Source& source, std::size_t i) {
        return source.bfloat16 ? Of<BFloat16>::load(source, i) : Of<float>::load(source, i);
    }
    static Vec load_part(const Source& source, std::size_t i, std::size_t n) {
        return source.bfloat16 ? Of<BFloat16>::load_part(source, i, n) : Of<float>::load_part(source, i, n);
    }
};

// run(how numbers are loaded), once for many rows.
template <class Run>
inline void by_held(Held held, const Run& run) {
    switch (held) {
        case Held::kFloat32: run(Of<float>{}); break;
        case Held::kBFloat16: run(Of<BFloat16>{}); break;
        case Held::kBoth: run(OfAny{}); break;
    }
}

// run(the type of the tree), one of the above.
template <class Run>
inline void by_count(const Addends& from, const Run& run) {
    if (from.count == 1) {
        run(Count<1>{});
    } else if (from.count == 2) {
        run(Count<2>{});
    } else if (from.count == 3 && from.joins[1] == 1) {
        run(LeftPair{});
    } else if (from.count == 3) {
        run(RightPair{});
    } else if (from.count == 4 && from.joins[1] == 1 && from.joins[2] == 0) {
        run(Count<4>{});
    } else {
        run(AnyCount{});
    }
}

// The sum of two halves.
struct Join {
    [[gnu::always_inline]] Vec operator()(Vec left, Vec right) const { return left + right; }
};

// total = the sum of the sources, kWide vectors side by side; load(source, v) gives vector v of a source.
template <std::size_t kWide, int N, class Load>
inline void tree_sum(Count<N>, const Addends& from, const Load& load, Vec (&total)[kWide]) {
    UNROLL
    for (std::size_t v = 0; v < kWide; ++v) {
        total[v] = rules::Tree<N>::sum([&](int s) INLINED { return load(from.sources[s], v); }, Join{}, 0);
    }
}

template <std::size_t kWide, class Load>
inline void tree_sum(LeftPair, const Addends& from, const Load& load, Vec (&total)[kWide]) {
    Vec pair[kWide];
    tree_sum(Count<2>{}, from, load, pair);
    UNROLL
    for (std::size_t v = 0; v < kWide; ++v) total[v] = pair[v] + load(from.sources[2], v);
}

template <std::size_t kWide, class Load>
inline void tree_sum(RightPair, const Addends& from, const Load& load, Vec (&total)[kWide]) {
    UNROLL
    for (std::size_t v = 0; v < kWide; ++v) {
        total[v] = load(from.sources[0], v) + (load(from.sources[1], v) + load(from.sources[2], v));
    }
}

template <std::size_t kWide, class Load>
inline void tree_sum(AnyCount, const Addends& from, const Load& load, Vec (&total)[kWide]) {
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
        const bool last = s + 1 == from.count;
        if (joins == 0 && !last && from.joins[s + 1] > 0) {  // the next source is its right half: it need not wait
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
