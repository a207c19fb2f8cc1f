#pragma once

#include "base/vec.h"
#include "sparse/kernels.h"

// Sums of rows of a slab, for a block of columns. As many sums are computed side by side as fit the registers.
namespace sparsepool {
namespace {

// Prefetches the rows that are used next, a few after each quad.
struct NextRows {
    const float* from;
    std::size_t columns, width;
    const std::uint32_t* rows;
    std::size_t remaining;
    std::size_t per_quad = 1;

    // Sets per_quad such that all rows are prefetched after `quads` quads.
    void spread_over(std::size_t quads) { per_quad = quads == 0 ? remaining : remaining / quads + 1; }

    INLINED void fetch() {
        for (std::size_t i = 0; i < per_quad && remaining > 0; ++i, ++rows, --remaining) {
            const float* row = from + *rows * columns;
            for (std::size_t c = 0; c < width; c += kLine) __builtin_prefetch(row + c, 0, 2);
        }
    }
};

// One block of kWidth columns, of which the first `used` exist.
template <std::size_t kWidth>
struct Columns {
    static constexpr std::size_t kCount = kWidth / Vec::kWidth;
    static constexpr std::size_t kMaxSums = 4;
    static constexpr std::size_t kAtOnce = kCount >= 8 ? 1 : (kCount == 4 ? 2 : kMaxSums);  // sums that fit registers

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
            if (c >= used) {
                out.v[i] = Vec::zero();
            } else if (used - c >= Vec::kWidth) {
                out.v[i] = Vec::load(from + c);
            } else {
                out.v[i] = Vec::load_part(from + c, used - c);
            }
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
            if (n >= Vec::kWidth) {
                v[i].store(to + i * Vec::kWidth);
            } else {
                v[i].store_part(to + i * Vec::kWidth, n);
            }
        }
    }

    void add(const float* row) {
        UNROLL
        for (std::size_t i = 0; i < kCount; ++i) v[i] = v[i] + Vec::load(row + i * Vec::kWidth);
    }
};

// Computes the sums of one quad over rows of `slab`. start(i) returns what sum i begins with; finish(i, sum) writes it.
template <std::size_t kWidth, class Start, class Finish>
void sum_quad(const float* slab, const std::uint16_t* terms, const SumQuad& quad, const Start& start,
              const Finish& finish) {
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
                finish(quad.out[first + i], total[i]);
            }
        }
    }
}

// Computes several quads and calls next.fetch() after each.
template <std::size_t kWidth, class Next, class Start, class Finish>
void sum_quads(const float* slab, const std::uint16_t* terms, const SumQuad* quads, std::size_t count, Next& next,
               const Start& start, const Finish& finish) {
    for (std::size_t i = 0; i < count; ++i) {
        sum_quad<kWidth>(slab, terms, quads[i], start, finish);
        next.fetch();
    }
}

// Adds the rows of a block to a sum for each column. Here they lie in a near cache: this costs a sixth of a pass over
// the full matrix.
template <std::size_t kWidth>
void add_columns(const float* block, std::size_t rows, float* sums, std::size_t used) {
    Columns<kWidth> total = Columns<kWidth>::zero();
    for (std::size_t r = 0; r < rows; ++r) total.add(block + r * kWidth);
    const Columns<kWidth> old_sums = Columns<kWidth>::load(sums, used);
    UNROLL
    for (std::size_t i = 0; i < Columns<kWidth>::kCount; ++i) total.v[i] = old_sums.v[i] + total.v[i];
    total.store(sums, used, false);
}

// Visits the sums of each group of a tile, ascending or descending. Sum `bits` is that of the group's rows whose bits
// are set: one row more than sum `bits & (bits - 1)`, in which the lowest bit is cleared. Calls visit(sum, smaller sum,
// row) with rows of the slab.
template <class Visit>
void visit_group_sums(const PlanView& plan, const PlanTile& tile, bool ascending, const Visit& visit) {
    constexpr std::size_t kSums = std::size_t{1} << PlanTile::kGroupBits;
    for (std::size_t g = 0; g < tile.groups; ++g) {
        const std::size_t base = tile.sums_of(g);
        const std::uint16_t* rows = plan.grouped + tile.first_grouped + g * PlanTile::kGroupBits;
        for (std::size_t i = 1; i < kSums; ++i) {
            const std::size_t bits = ascending ? i : kSums - i;
            const auto lowest_bit = static_cast<std::size_t>(__builtin_ctzll(bits));
            visit(base + bits, base + (bits & (bits - 1)), std::size_t{1} + rows[lowest_bit]);
        }
    }
}

// Computes all sums of each group from its rows.
template <std::size_t kWidth>
void compute_group_sums(const PlanView& plan, const PlanTile& tile, float* block) {
    for (std::size_t g = 0; g < tile.groups; ++g) {
        float* empty = block + tile.sums_of(g) * kWidth;
        for (std::size_t c = 0; c < kWidth; ++c) empty[c] = 0.0F;
    }
    visit_group_sums(plan, tile, true, [&](std::size_t sum, std::size_t smaller_sum, std::size_t row) {
        Columns<kWidth> total = Columns<kWidth>::load(block + smaller_sum * kWidth);
        total.add(block + row * kWidth);
        total.store(block + sum * kWidth);
    });
}

// The backward direction: adds the gradient of each sum to the gradients of its rows.
template <std::size_t kWidth>
void distribute_group_sums(const PlanView& plan, const PlanTile& tile, float* block) {
    visit_group_sums(plan, tile, false, [&](std::size_t sum, std::size_t smaller_sum, std::size_t row) {
        Columns<kWidth> row_total = Columns<kWidth>::load(block + row * kWidth);
        Columns<kWidth> smaller_total = Columns<kWidth>::load(block + smaller_sum * kWidth);
        row_total.add(block + sum * kWidth);
        smaller_total.add(block + sum * kWidth);
        row_total.store(block + row * kWidth);
        smaller_total.store(block + smaller_sum * kWidth);
    });
}

}  // namespace
}  // namespace sparsepool
