#pragma once

#include "sparse/plan/quad_sums_kernel.h"

// Sums of whole blocks of a tile's slab: of its groups of rows, and of columns.
namespace sparsepool {
namespace {

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
