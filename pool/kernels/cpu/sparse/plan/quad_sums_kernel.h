#pragma once

#include "sparse/kernels.h"
#include "vector/vec.h"

// Sums of rows of a slab, as many side by side as registers allow: a block of columns, the loop over quads.
namespace sparsepool {
namespace {

// Rows that are wanted next, some of them fetched after each quad.
struct NextRows {
    const float* from;
    std::size_t columns, width;
    const std::uint32_t* rows;
    std::size_t left;
    std::size_t at_once = 1;

    // So many at once that all are fetched after `quads` quads.
    void spread_over(std::size_t quads) { at_once = quads == 0 ? left : left / quads + 1; }

    INLINED void fetch() {
        for (std::size_t i = 0; i < at_once && left > 0; ++i, ++rows, --left) {
            const float* row = from + *rows * columns;
            for (std::size_t c = 0; c < width; c += kLine) __builtin_prefetch(row + c, 0, 2);
        }
    }
};

// One block of kWidth columns, of which the first `used` exist.
template <std::size_t kWidth>
struct Columns {
    static constexpr std::size_t kCount = kWidth / Vec::kWidth;
    static constexpr std::size_t kAtOnce = kCount >= 8 ? 1 : kCount == 4 ? 2 : 4;  // that registers have place for

    Vec v[kCount];

    static Columns zero() {
        Columns out;
        UNROLL
        for (std::size_t i = 0; i < kCount; ++i) out.v[i] = Vec::zero();
        return out;
    }

    static Columns load(const float* from) {
        Columns out;
        UNROLL
        for (std::size_t i = 0; i < kCount; ++i) out.v[i] = Vec::load(from + i * Vec::kWidth);
        return out;
    }

    static Columns load(const float* from, std::size_t used) {
        if (used == kWidth) return load(from);
        Columns out;
        for (std::size_t i = 0; i < kCount; ++i) {
            const std::size_t c = i * Vec::kWidth;
            out.v[i] = c >= used                 ? Vec::zero()
                       : used - c >= Vec::kWidth ? Vec::load(from + c)
                                                 : Vec::load_part(from + c, used - c);
        }
        return out;
    }

    void store(float* to) const {
        UNROLL
        for (std::size_t i = 0; i < kCount; ++i) v[i].store(to + i * Vec::kWidth);
    }

    void store(float* to, std::size_t used, bool stream) const {
        if (stream && used == kWidth) {
            UNROLL
            for (std::size_t i = 0; i < kCount; ++i) v[i].stream(to + i * Vec::kWidth);
            return;
        }
        for (std::size_t i = 0; i < kCount && i * Vec::kWidth < used; ++i) {
            const std::size_t n = used - i * Vec::kWidth;
            n >= Vec::kWidth ? v[i].store(to + i * Vec::kWidth) : v[i].store_part(to + i * Vec::kWidth, n);
        }
    }

    void add(const float* row) {
        UNROLL
        for (std::size_t i = 0; i < kCount; ++i) v[i] = v[i] + Vec::load(row + i * Vec::kWidth);
    }
};

// The sums of one quad over rows of `slab`. start(place) -> Columns; done(place, Columns).
template <std::size_t kWidth, class Start, class Done>
void sum_quad(const float* slab, const std::uint16_t* terms, const SumQuad& quad, const Start& start,
              const Done& done) {
    constexpr std::size_t kAtOnce = Columns<kWidth>::kAtOnce;
    for (std::size_t first = 0; first < SumQuad::kSums; first += kAtOnce) {
        Columns<kWidth> total[kAtOnce];
        UNROLL
        for (std::size_t i = 0; i < kAtOnce; ++i) total[i] = start(quad.out[first + i]);
        const std::uint16_t* term = terms + quad.first + first;
        for (std::size_t k = 0; k < quad.size; ++k, term += SumQuad::kSums) {
            UNROLL
            for (std::size_t i = 0; i < kAtOnce; ++i) total[i].add(slab + term[i] * kWidth);
        }
        UNROLL
        for (std::size_t i = 0; i < kAtOnce; ++i) {
            if (first + i < quad.sums) [[likely]] {
                done(quad.out[first + i], total[i]);
            }
        }
    }
}

// next.fetch() is called after each quad.
template <std::size_t kWidth, class Next, class Start, class Done>
void sum_quads(const float* slab, const std::uint16_t* terms, const SumQuad* quads, std::size_t count, Next& next,
               const Start& start, const Done& done) {
    for (std::size_t i = 0; i < count; ++i) {
        sum_quad<kWidth>(slab, terms, quads[i], start, done);
        next.fetch();
    }
}

}  // namespace
}  // namespace sparsepool
