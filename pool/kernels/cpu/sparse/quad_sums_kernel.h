#pragma once

#include "base/vec.h"
#include "sparse/kernels.h"

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

// Sums of whole blocks of a tile's slab: of its groups of rows, and of columns.

// Adds `rows` rows of a block to a sum per column. Here, where they lie in a near cache, it costs a sixth of what a
// pass over the whole matrix would.
template <std::size_t kWidth>
void add_columns(const float* block, std::size_t rows, float* sums, std::size_t used) {
    Columns<kWidth> total = Columns<kWidth>::zero();
    for (std::size_t r = 0; r < rows; ++r) total.add(block + r * kWidth);
    const Columns<kWidth> before = Columns<kWidth>::load(sums, used);
    UNROLL
    for (std::size_t i = 0; i < Columns<kWidth>::kCount; ++i) total.v[i] = before.v[i] + total.v[i];
    total.store(sums, used, false);
}

// Sum number `bits` of a group has one row more than sum `bits` without its lowest bit: visit(sum, that sum, row).
template <class Visit>
void each_sum(const PlanView& plan, const PlanTile& tile, bool rising, const Visit& visit) {
    constexpr std::size_t kSums = std::size_t{1} << PlanTile::kGroupBits;
    for (std::size_t g = 0; g < tile.groups; ++g) {
        const std::size_t base = tile.sums_of(g);
        const std::uint16_t* rows = plan.grouped + tile.first_grouped + g * PlanTile::kGroupBits;
        for (std::size_t i = 1; i < kSums; ++i) {
            const std::size_t bits = rising ? i : kSums - i;
            const auto lowest = static_cast<std::size_t>(__builtin_ctzll(bits));
            visit(base + bits, base + (bits & (bits - 1)), std::size_t{1} + rows[lowest]);
        }
    }
}

// All sums of each group, from its rows.
template <std::size_t kWidth>
void make_sums(const PlanView& plan, const PlanTile& tile, float* block) {
    for (std::size_t g = 0; g < tile.groups; ++g) {
        float* empty = block + tile.sums_of(g) * kWidth;
        for (std::size_t c = 0; c < kWidth; ++c) empty[c] = 0.0F;
    }
    each_sum(plan, tile, true, [&](std::size_t sum, std::size_t without, std::size_t row) {
        Columns<kWidth> total = Columns<kWidth>::load(block + without * kWidth);
        total.add(block + row * kWidth);
        total.store(block + sum * kWidth);
    });
}

// The other way: what the sums got is added to their rows.
template <std::size_t kWidth>
void spread_sums(const PlanView& plan, const PlanTile& tile, float* block) {
    each_sum(plan, tile, false, [&](std::size_t sum, std::size_t without, std::size_t row) {
        Columns<kWidth> one = Columns<kWidth>::load(block + row * kWidth);
        Columns<kWidth> other = Columns<kWidth>::load(block + without * kWidth);
        one.add(block + sum * kWidth);
        other.add(block + sum * kWidth);
        one.store(block + row * kWidth);
        other.store(block + without * kWidth);
    });
}

}  // namespace
}  // namespace sparsepool
