#pragma once

#include "sparse/quad_sums_kernel.h"

// Sums of rows along a plan (sparse_plan.h): copies a slab, adds up its rows, and writes the sums.
//
// A slab has up to 128 columns of a tile's rows in blocks of 32 (or 16) columns, each [rows][block], so that the sums
// of one block read contiguous memory. Meanwhile the rows of the next tile or chunk are prefetched: memory is then read
// at twice the speed (measured), since their addresses are no regular stream.
namespace sparsepool {
namespace {

// Columns [first, first + used) of a slab, in blocks of kWidth.
template <std::size_t kWidth>
struct Slab {
    std::size_t first, used;

    std::size_t blocks() const { return (used + kWidth - 1) / kWidth; }
    std::size_t column(std::size_t block) const { return first + block * kWidth; }
    std::size_t width(std::size_t block) const {
        const std::size_t remaining = used - block * kWidth;
        return remaining < kWidth ? remaining : kWidth;
    }

    // Copies rows numbers[0 .. count - 1] of `from` to rows 1 .. count of blocks of `stride` rows.
    void gather(const float* from, std::size_t columns, const std::uint32_t* numbers, std::size_t count,
                std::size_t stride, float* to) const {
        for (std::size_t b = 0; b < blocks(); ++b) Columns<kWidth>::zero().store(to + b * stride * kWidth);
        for (std::size_t r = 0; r < count; ++r) {
            const float* row = from + numbers[r] * columns;
            for (std::size_t b = 0; b < blocks(); ++b) {
                Columns<kWidth>::load(row + column(b), width(b)).store(to + (b * stride + 1 + r) * kWidth);
            }
        }
    }
};

template <std::size_t kWidth>
void forward_tile(const PlanView& plan, const PlanSums& sums, const Slab<kWidth>& slab, const PlanTile& tile,
                  NextRows next, float* copies) {
    const std::size_t stride = tile.slab_rows();
    slab.gather(sums.from, sums.columns, plan.rows + tile.first_row, tile.rows, stride, copies);
    for (std::size_t b = 0; b < slab.blocks(); ++b)
        compute_group_sums<kWidth>(plan, tile, copies + b * stride * kWidth);
    next.spread_over((plan.chunks[tile.last_chunk - 1].last_bag_quad - plan.chunks[tile.first_chunk].first_bag_quad) *
                     slab.blocks());
    for (std::size_t c = tile.first_chunk; c < tile.last_chunk; ++c) {
        const PlanChunk& chunk = plan.chunks[c];
        const std::uint32_t* bags = plan.bags + chunk.first_bag;
        for (std::size_t b = 0; b < slab.blocks(); ++b) {
            const std::size_t column = slab.column(b);
            const std::size_t width = slab.width(b);
            const auto start = [&](std::size_t) {
                return sums.start == nullptr ? Columns<kWidth>::zero()
                                             : Columns<kWidth>::load(sums.start + column, width);
            };
            const auto finish = [&](std::size_t bag, const Columns<kWidth>& total) {
                total.store(sums.to + bags[bag] * sums.columns + column, width, sums.stream);
            };
            sum_quads<kWidth>(copies + b * stride * kWidth, plan.bag_terms, plan.bag_quads + chunk.first_bag_quad,
                              chunk.last_bag_quad - chunk.first_bag_quad, next, start, finish);
        }
    }
}

// Writes the gradients of a tile's rows; adds them to those of earlier tiles that have the row too.
template <std::size_t kWidth>
void write_rows(const PlanView& plan, const PlanSums& sums, const Slab<kWidth>& slab, const PlanTile& tile,
                const float* totals) {
    const std::size_t stride = tile.slab_rows();
    for (std::size_t r = 0; r < tile.rows; ++r) {
        float* row = sums.to + plan.rows[tile.first_row + r] * sums.columns;
        const bool has_earlier_sum = plan.seen[tile.first_row + r] != 0;
        for (std::size_t b = 0; b < slab.blocks(); ++b) {
            Columns<kWidth> total = Columns<kWidth>::load(totals + (b * stride + 1 + r) * kWidth);
            if (has_earlier_sum) {
                const Columns<kWidth> earlier = Columns<kWidth>::load(row + slab.column(b), slab.width(b));
                UNROLL
                for (std::size_t i = 0; i < Columns<kWidth>::kCount; ++i) total.v[i] = earlier.v[i] + total.v[i];
            }
            total.store(row + slab.column(b), slab.width(b), sums.stream && !has_earlier_sum);
        }
    }
}

template <std::size_t kWidth>
void backward_tile(const PlanView& plan, const PlanSums& sums, const Slab<kWidth>& slab, const PlanTile& tile,
                   std::size_t next_column, float* copies) {
    const std::size_t stride = tile.slab_rows();
    float* totals = copies + (1 + PlanView::kChunk) * PlanView::kSlab;
    for (std::size_t i = 0; i < stride * slab.blocks() * kWidth; ++i) totals[i] = 0.0F;
    for (std::size_t c = tile.first_chunk; c < tile.last_chunk; ++c) {
        const PlanChunk& chunk = plan.chunks[c];
        const std::size_t bags = chunk.last_bag - chunk.first_bag;
        const std::size_t quads = chunk.last_row_quad - chunk.first_row_quad;
        slab.gather(sums.from, sums.columns, plan.bags + chunk.first_bag, bags, 1 + bags, copies);
        const bool last = c + 1 == plan.num_chunks;
        const PlanChunk& following = plan.chunks[last ? 0 : c + 1];
        NextRows next{sums.from + (last ? next_column : slab.first), sums.columns, slab.used,
                      plan.bags + following.first_bag,
                      last && next_column == 0 ? 0 : following.last_bag - following.first_bag};
        next.spread_over(quads * slab.blocks());
        for (std::size_t b = 0; b < slab.blocks(); ++b) {
            float* block = totals + b * stride * kWidth;
            const float* gradients = copies + b * (1 + bags) * kWidth;
            const auto start = [&](std::size_t row) { return Columns<kWidth>::load(block + row * kWidth); };
            const auto finish = [&](std::size_t row, const Columns<kWidth>& total) {
                total.store(block + row * kWidth);
            };
            add_columns<kWidth>(gradients + kWidth, bags, sums.column_sums + slab.column(b), slab.width(b));
            sum_quads<kWidth>(gradients, plan.row_terms, plan.row_quads + chunk.first_row_quad, quads, next, start,
                              finish);
        }
    }
    for (std::size_t b = 0; b < slab.blocks(); ++b)
        distribute_group_sums<kWidth>(plan, tile, totals + b * stride * kWidth);
    write_rows<kWidth>(plan, sums, slab, tile, totals);
}

template <std::size_t kWidth>
void forward_slab(const PlanView& plan, const PlanSums& sums, const Slab<kWidth>& slab, std::size_t next_column,
                  float* scratch) {
    for (std::size_t t = 0; t < plan.num_tiles; ++t) {
        const bool last = t + 1 == plan.num_tiles;
        const PlanTile& following = plan.tiles[last ? 0 : t + 1];
        const NextRows next{sums.from + (last ? next_column : slab.first), sums.columns, slab.used,
                            plan.rows + following.first_row, last && next_column == 0 ? 0 : following.rows};
        forward_tile<kWidth>(plan, sums, slab, plan.tiles[t], next, scratch);
    }
}

template <std::size_t kWidth>
void backward_slab(const PlanView& plan, const PlanSums& sums, const PlanPart& part, const Slab<kWidth>& slab,
                   std::size_t next_column, float* scratch) {
    for (std::size_t t = part.first_tile; t < part.last_tile; ++t) {
        backward_tile<kWidth>(plan, sums, slab, plan.tiles[t], next_column, scratch);
    }
}

// Calls run(slab, first column of the next slab or 0) for each slab.
template <class Run>
void visit_slabs(std::size_t first, std::size_t last, const Run& run) {
    for (std::size_t column = first; column < last; column += PlanView::kSlab) {
        const std::size_t remaining = last - column;
        const std::size_t used = remaining < PlanView::kSlab ? remaining : PlanView::kSlab;
        const std::size_t next_column = remaining > PlanView::kSlab ? column + PlanView::kSlab : 0;
        if (used <= 16) {
            run(Slab<16>{column, used}, next_column);
        } else {
            run(Slab<32>{column, used}, next_column);
        }
    }
    fence();
}

void plan_forward(const PlanView& plan, const PlanSums& sums, std::size_t first, std::size_t last, float* scratch) {
    const auto run = [&](const auto& slab, std::size_t next) { forward_slab(plan, sums, slab, next, scratch); };
    visit_slabs(first, last, run);
}

void plan_backward(const PlanView& plan, const PlanSums& sums, const PlanPart& part, float* scratch) {
    const auto run = [&](const auto& slab, std::size_t next) { backward_slab(plan, sums, part, slab, next, scratch); };
    visit_slabs(part.first_column, part.last_column, run);
}

}  // namespace
}  // namespace sparsepool
