#pragma once

#include "sparse/quad_sums_kernel.h"
#include "tasks/chess/cpu/first_activation_kernel.h"
#include "tasks/chess/cpu/kernels.h"
#include "tasks/chess/cpu/small_matrix.h"

// The first layer's sums, their activation and the dense layer behind it in one pass over the plan, and back.
//
// Forward, what a chunk's bags enter the dense layer as stays in the second cache until its part of the layer's outputs
// is made; memory sees the clamped outputs once, for backward. Backward, their gradient is made chunk by chunk where
// the rows' sums read it.
namespace sparsepool::chess {
namespace {

constexpr std::size_t kPair = FirstLayers::kBlock;
constexpr std::size_t kHalf = kPair / 2;
constexpr std::size_t kPad = 16;  // rows of products don't fall into one cache set
constexpr std::size_t kProducts = PlanView::kSlab + kPad;

// Blocks [first, first + blocks) of the table's columns.
template <FirstActivation kFirst>
struct PairSlab {
    static constexpr bool kPairs = makes_pairs(kFirst);
    static constexpr std::size_t kWidth = kPairs ? kHalf : kPair;  // products of a block

    std::size_t first, blocks, l1;

    PairSlab(const FirstLayers& layers, std::size_t slab)
        : first(slab * FirstLayers::kBlocks), blocks(layers.blocks() - first), l1(layers.layout->l1) {
        if (blocks > FirstLayers::kBlocks) blocks = FirstLayers::kBlocks;
    }

    // Table columns of a block's two halves, and the first input of the dense layer that it makes of one side.
    std::size_t low(std::size_t block) const { return (first + block) * kWidth; }
    std::size_t high(std::size_t block) const { return low(block) + (kPairs ? l1 / 2 : kHalf); }
    std::size_t input(std::size_t block) const { return (first + block) * kWidth; }

    // Copies rows of the table to rows 1 .. count of each block.
    void gather(const float* table, const std::uint32_t* numbers, std::size_t count, std::size_t stride,
                float* to) const {
        for (std::size_t b = 0; b < blocks; ++b) Columns<kPair>::zero().store(to + b * stride * kPair);
        for (std::size_t r = 0; r < count; ++r) {
            const float* row = table + numbers[r] * l1;
            for (std::size_t b = 0; b < blocks; ++b) {
                float* place = to + (b * stride + 1 + r) * kPair;
                Columns<kHalf>::load(row + low(b)).store(place);
                Columns<kHalf>::load(row + high(b)).store(place + kHalf);
            }
        }
    }
};

// Rows of the table that the next tile needs, fetched while this one's are added.
template <FirstActivation kFirst>
struct NextPairs {
    const PairSlab<kFirst>& slab;
    const float* table;
    const std::uint32_t* rows;
    std::size_t left;
    std::size_t at_once = 1;

    void spread_over(std::size_t quads) { at_once = quads == 0 ? left : left / quads + 1; }

    INLINED void fetch() {
        for (std::size_t i = 0; i < at_once && left > 0; ++i, ++rows, --left) {
            const float* row = table + *rows * slab.l1;
            for (std::size_t b = 0; b < slab.blocks; ++b) {
                __builtin_prefetch(row + slab.low(b), 0, 2);
                __builtin_prefetch(row + slab.high(b), 0, 2);
            }
        }
    }
};

// Memory that is read next, line by line.
struct NextLines {
    const float* from;
    std::size_t left;
    std::size_t at_once = 1;

    void spread_over(std::size_t quads) { at_once = quads == 0 ? left : left / quads + 1; }

    INLINED void fetch() {
        for (std::size_t i = 0; i < at_once && left > 0; ++i, from += kLine, --left) __builtin_prefetch(from, 0, 2);
    }
};

// Half a block.
struct Lanes {
    static constexpr std::size_t kCount = kHalf / Vec::kWidth;
};

// A bag's clamped sums of one block, to be kept, and their products.
template <FirstActivation kFirst>
void make_products(const Columns<kPair>& total, const First<kFirst>& how, float* kept, bool stream, float* products) {
    UNROLL
    for (std::size_t v = 0; v < Lanes::kCount; ++v) {
        const Vec low = total.v[v].clipped(how.top);
        const Vec high = total.v[Lanes::kCount + v].clipped(how.top);
        float* const place = kept + v * Vec::kWidth;
        if (stream) {
            low.stream(place);
            high.stream(place + kHalf);
        } else {
            low.store(place);
            high.store(place + kHalf);
        }
        float* const product = products + v * Vec::kWidth;
        if constexpr (makes_pairs(kFirst)) {
            how.product(low, high).store(product);
        } else {
            const bool squared = kFirst == FirstActivation::kSquared;
            (squared ? low * low : low).store(product);
            (squared ? high * high : high).store(product + kHalf);
        }
    }
}

// The products again, from what was kept.
template <FirstActivation kFirst>
void remake_products(const float* kept, const First<kFirst>& how, float* products) {
    UNROLL
    for (std::size_t v = 0; v < Lanes::kCount; ++v) {
        const std::size_t c = v * Vec::kWidth;
        const Vec low = Vec::load(kept + c);
        const Vec high = Vec::load(kept + kHalf + c);
        if constexpr (makes_pairs(kFirst)) {
            how.product(low, high).store(products + c);
        } else {
            const bool squared = kFirst == FirstActivation::kSquared;
            (squared ? low * low : low).store(products + c);
            (squared ? high * high : high).store(products + kHalf + c);
        }
    }
}

// From the gradient of a bag's products to that of its sums.
template <FirstActivation kFirst>
void spread_products(const float* kept, const float* grad, const First<kFirst>& how, float* to) {
    const Vec top = how.top;
    UNROLL
    for (std::size_t v = 0; v < Lanes::kCount; ++v) {
        const std::size_t c = v * Vec::kWidth;
        const Vec low = Vec::load(kept + c);
        const Vec high = Vec::load(kept + kHalf + c);
        const Vec g = how.of_product(Vec::load(grad + c));
        if constexpr (makes_pairs(kFirst)) {
            (g * high).where_inside(low, top).store(to + c);
            (g * low).where_inside(high, top).store(to + kHalf + c);
        } else {
            const Vec other = Vec::load(grad + kHalf + c);
            const bool squared = kFirst == FirstActivation::kSquared;
            (squared ? g * (low + low) : g).where_inside(low, top).store(to + c);
            (squared ? other * (high + high) : other).where_inside(high, top).store(to + kHalf + c);
        }
    }
}

float* kept_of(const FirstLayers& layers, std::size_t block, const PlanChunk& chunk) {
    return layers.activations + (block * 2 * layers.samples + chunk.first_bag) * kPair;
}

std::size_t sample_of(const FirstLayers& layers, std::uint32_t bag) {
    return bag < layers.samples ? bag : bag - layers.samples;
}

// What the products of a chunk add to the dense layer's outputs.
template <FirstActivation kFirst>
void forward_dense(const FirstLayers& layers, const PairSlab<kFirst>& slab, std::size_t chunk, const float* products,
                   float* outputs, float* partial) {
    const LayerPlace& dense = layers.layout->hidden[0];
    const std::uint32_t* bags = layers.plan->bags + layers.plan->chunks[chunk].first_bag;
    for (std::size_t r = layers.first_run[chunk]; r < layers.first_run[chunk + 1]; ++r) {
        const PlanRun& run = layers.runs[r];
        const std::size_t input = slab.input(0) + (run.opponent ? layers.layout->inputs / 2 : 0);
        multiply({products + run.first * kProducts, kProducts}, run.last - run.first, slab.blocks * slab.kWidth,
                 {layers.parameters[run.bucket] + dense.transposed + input * dense.outputs, dense.outputs},
                 dense.outputs, nullptr, outputs, dense.outputs);
        for (std::size_t i = run.first; i < run.last; ++i) {
            float* to = partial + sample_of(layers, bags[i]) * dense.outputs;
            const float* from = outputs + (i - run.first) * dense.outputs;
            for (std::size_t c = 0; c < dense.outputs; c += Vec::kWidth) {
                (Vec::load(to + c) + Vec::load(from + c)).store(to + c);
            }
        }
    }
}

template <FirstActivation kFirst>
void forward_tile(const FirstLayers& layers, const PairSlab<kFirst>& slab, const PlanTile& tile, NextPairs<kFirst> next,
                  float* partial, float* scratch) {
    const PlanView& plan = *layers.plan;
    const First<kFirst> how(*layers.layout);
    float* products = scratch;
    float* outputs = products + PlanView::kChunk * kProducts;
    float* copies = outputs + PlanView::kChunk * layers.dense();
    const std::size_t stride = tile.slab_rows();
    slab.gather(layers.table, plan.rows + tile.first_row, tile.rows, stride, copies);
    for (std::size_t b = 0; b < slab.blocks; ++b) make_sums<kPair>(plan, tile, copies + b * stride * kPair);
    next.spread_over((plan.chunks[tile.last_chunk - 1].last_bag_quad - plan.chunks[tile.first_chunk].first_bag_quad) *
                     slab.blocks);
    for (std::size_t c = tile.first_chunk; c < tile.last_chunk; ++c) {
        const PlanChunk& chunk = plan.chunks[c];
        for (std::size_t b = 0; b < slab.blocks; ++b) {
            Columns<kPair> bias;
            UNROLL
            for (std::size_t v = 0; v < Lanes::kCount; ++v) {
                bias.v[v] = Vec::load(layers.bias + slab.low(b) + v * Vec::kWidth);
                bias.v[Lanes::kCount + v] = Vec::load(layers.bias + slab.high(b) + v * Vec::kWidth);
            }
            float* kept = kept_of(layers, slab.first + b, chunk);
            const auto start = [&](std::size_t) { return bias; };
            const auto done = [&](std::size_t bag, const Columns<kPair>& total) {
                make_products(total, how, kept + bag * kPair, layers.stream,
                              products + bag * kProducts + b * slab.kWidth);
            };
            sum_quads<kPair>(copies + b * stride * kPair, plan.bag_terms, plan.bag_quads + chunk.first_bag_quad,
                             chunk.last_bag_quad - chunk.first_bag_quad, next, start, done);
        }
        forward_dense(layers, slab, c, products, outputs, partial);
    }
}

template <FirstActivation kFirst>
void forward_slab(const FirstLayers& layers, std::size_t number, std::size_t last_slab, float* scratch) {
    const PlanView& plan = *layers.plan;
    const PairSlab<kFirst> slab(layers, number);
    const std::size_t size = layers.samples * layers.dense();
    float* partial = layers.partial + number * size;
    for (std::size_t i = 0; i < size; ++i) partial[i] = 0.0F;
    const bool last_one = number + 1 == last_slab;
    const PairSlab<kFirst> following(layers, last_one ? number : number + 1);
    for (std::size_t t = 0; t < plan.num_tiles; ++t) {
        const bool last = t + 1 == plan.num_tiles;
        const PlanTile& tile = plan.tiles[last ? 0 : t + 1];
        const NextPairs<kFirst> next{last ? following : slab, layers.table, plan.rows + tile.first_row,
                                     last && last_one ? 0 : tile.rows};
        forward_tile(layers, slab, plan.tiles[t], next, partial, scratch);
    }
}

// The dense layer's weights of a slab's inputs and their sums, side by side: in the layer itself rows are so far apart
// that they fall into one cache set. By side, bucket and output.
template <FirstActivation kFirst>
struct DensePart {
    static constexpr std::size_t kRow = FirstLayers::kBlocks * PairSlab<kFirst>::kWidth;

    float* weights;
    float* sums;

    static std::size_t size(const FirstLayers& layers) { return 2 * layers.buckets * layers.dense() * kRow; }
    static std::size_t place(const FirstLayers& layers, std::size_t bucket, bool opponent) {
        return ((opponent ? layers.buckets : 0) + bucket) * layers.dense() * kRow;
    }

    // visit(row of the layer's weights, row of its sums, place here)
    template <class Visit>
    static void each_row(const FirstLayers& layers, const PairSlab<kFirst>& slab, const Visit& visit) {
        const LayerPlace& dense = layers.layout->hidden[0];
        for (std::size_t side = 0; side < 2; ++side) {
            const std::size_t input = slab.input(0) + side * layers.layout->inputs / 2;
            for (std::size_t b = 0; b < layers.buckets; ++b) {
                for (std::size_t o = 0; o < dense.outputs; ++o) {
                    const std::size_t from = dense.weight + o * dense.depth + input;
                    visit(layers.parameters[b] + from, layers.sums[b] + from, place(layers, b, side == 1) + o * kRow);
                }
            }
        }
    }

    void load(const FirstLayers& layers, const PairSlab<kFirst>& slab) const {
        const std::size_t width = slab.blocks * slab.kWidth;
        each_row(layers, slab, [&](const float* weight, const float* sum, std::size_t to) {
            for (std::size_t c = 0; c < width; c += Vec::kWidth) {
                Vec::load(weight + c).store(weights + to + c);
                Vec::load(sum + c).store(sums + to + c);
            }
        });
    }

    void store(const FirstLayers& layers, const PairSlab<kFirst>& slab) const {
        const std::size_t width = slab.blocks * slab.kWidth;
        each_row(layers, slab, [&](const float*, float* sum, std::size_t from) {
            for (std::size_t c = 0; c < width; c += Vec::kWidth) Vec::load(sums + from + c).store(sum + c);
        });
    }
};

// The gradient of one block's sums of a chunk's bags, in rows 1 .. of `gradients`; and what the block adds to the dense
// layer's sums. grad_outputs: rows of the chunk.
template <FirstActivation kFirst>
void backward_dense(const FirstLayers& layers, const PairSlab<kFirst>& slab, const DensePart<kFirst>& part,
                    std::size_t block, std::size_t chunk, const float* grad_outputs, float* products,
                    float* grad_products, float* gradients) {
    constexpr std::size_t kWidth = PairSlab<kFirst>::kWidth;
    const LayerPlace& dense = layers.layout->hidden[0];
    const PlanChunk& place = layers.plan->chunks[chunk];
    const float* kept = kept_of(layers, slab.first + block, place);
    const First<kFirst> how(*layers.layout);
    const std::size_t bags = place.last_bag - place.first_bag;
    for (std::size_t i = 0; i < bags; ++i) remake_products(kept + i * kPair, how, products + i * kWidth);
    for (std::size_t r = layers.first_run[chunk]; r < layers.first_run[chunk + 1]; ++r) {
        const PlanRun& run = layers.runs[r];
        const std::size_t size = run.last - run.first;
        const std::size_t at = part.place(layers, run.bucket, run.opponent) + block * kWidth;
        const Strided grad{grad_outputs + run.first * dense.outputs, dense.outputs};
        multiply(grad, size, dense.outputs, {part.weights + at, part.kRow}, kWidth, nullptr,
                 grad_products + run.first * kWidth, kWidth);
        accumulate(grad, {products + run.first * kWidth, kWidth}, size, dense.outputs, kWidth, part.sums + at,
                   part.kRow);
    }
    Columns<kPair>::zero().store(gradients);
    for (std::size_t i = 0; i < bags; ++i) {
        spread_products(kept + i * kPair, grad_products + i * kWidth, how, gradients + (1 + i) * kPair);
    }
}

template <FirstActivation kFirst>
void write_rows(const FirstLayers& layers, const PairSlab<kFirst>& slab, const PlanTile& tile, const float* totals) {
    const PlanView& plan = *layers.plan;
    const std::size_t stride = tile.slab_rows();
    for (std::size_t r = 0; r < tile.rows; ++r) {
        float* row = layers.grad_table + plan.rows[tile.first_row + r] * slab.l1;
        const bool again = plan.seen[tile.first_row + r] != 0;
        for (std::size_t b = 0; b < slab.blocks; ++b) {
            const float* total = totals + (b * stride + 1 + r) * kPair;
            for (std::size_t half = 0; half < 2; ++half) {
                float* to = row + (half == 0 ? slab.low(b) : slab.high(b));
                Columns<kHalf> sum = Columns<kHalf>::load(total + half * kHalf);
                if (again) sum.add(to);
                sum.store(to, kHalf, layers.stream && !again);
            }
        }
    }
}

template <FirstActivation kFirst>
void backward_tile(const FirstLayers& layers, const PairSlab<kFirst>& slab, const DensePart<kFirst>& part,
                   const PlanTile& tile, float* scratch) {
    const PlanView& plan = *layers.plan;
    const std::size_t dense = layers.dense();
    float* grad_outputs = scratch;
    float* products = grad_outputs + PlanView::kChunk * dense;
    float* grad_products = products + PlanView::kChunk * kPair;
    float* gradients = grad_products + PlanView::kChunk * kPair;
    float* totals = gradients + (1 + PlanView::kChunk) * kPair;
    const std::size_t stride = tile.slab_rows();
    for (std::size_t i = 0; i < stride * slab.blocks * kPair; ++i) totals[i] = 0.0F;
    for (std::size_t c = tile.first_chunk; c < tile.last_chunk; ++c) {
        const PlanChunk& chunk = plan.chunks[c];
        const std::size_t bags = chunk.last_bag - chunk.first_bag;
        const std::size_t quads = chunk.last_row_quad - chunk.first_row_quad;
        for (std::size_t i = 0; i < bags; ++i) {
            const float* from = layers.grad_outputs + sample_of(layers, plan.bags[chunk.first_bag + i]) * dense;
            for (std::size_t k = 0; k < dense; k += Vec::kWidth) {
                Vec::load(from + k).store(grad_outputs + i * dense + k);
            }
        }
        for (std::size_t b = 0; b < slab.blocks; ++b) {
            backward_dense(layers, slab, part, b, c, grad_outputs, products, grad_products, gradients);
            float sums[kPair];
            Columns<kPair>::zero().store(sums);
            add_columns<kPair>(gradients + kPair, bags, sums, kPair);
            for (std::size_t i = 0; i < kHalf; ++i) {
                layers.column_sums[slab.low(b) + i] += sums[i];
                layers.column_sums[slab.high(b) + i] += sums[kHalf + i];
            }
            const bool last = b + 1 == slab.blocks;
            const bool none = last && c + 1 == plan.num_chunks;
            const PlanChunk& following = plan.chunks[last && !none ? c + 1 : c];
            NextLines next{kept_of(layers, slab.first + (last ? 0 : b + 1), following),
                           none ? 0 : (following.last_bag - following.first_bag) * kPair / kLine};
            next.spread_over(quads);
            float* block = totals + b * stride * kPair;
            const auto start = [&](std::size_t row) { return Columns<kPair>::load(block + row * kPair); };
            const auto done = [&](std::size_t row, const Columns<kPair>& total) { total.store(block + row * kPair); };
            sum_quads<kPair>(gradients, plan.row_terms, plan.row_quads + chunk.first_row_quad, quads, next, start,
                             done);
        }
    }
    for (std::size_t b = 0; b < slab.blocks; ++b) spread_sums<kPair>(plan, tile, totals + b * stride * kPair);
    write_rows(layers, slab, tile, totals);
}

void first_forward(const FirstLayers& layers, std::size_t first_slab, std::size_t last_slab, float* scratch) {
    with_activation(layers.layout->first, [&](auto first) {
        for (std::size_t s = first_slab; s < last_slab; ++s) forward_slab<first()>(layers, s, last_slab, scratch);
    });
    fence();
}

void first_backward(const FirstLayers& layers, std::size_t first_tile, std::size_t last_tile, std::size_t first_slab,
                    std::size_t last_slab, float* scratch) {
    with_activation(layers.layout->first, [&](auto first) {
        for (std::size_t s = first_slab; s < last_slab; ++s) {
            const PairSlab<first()> slab(layers, s);
            using Part = DensePart<first()>;
            const Part part{scratch, scratch + Part::size(layers)};
            part.load(layers, slab);
            for (std::size_t t = first_tile; t < last_tile; ++t) {
                backward_tile(layers, slab, part, layers.plan->tiles[t], scratch + 2 * Part::size(layers));
            }
            part.store(layers, slab);
        }
    });
    fence();
}

}  // namespace
}  // namespace sparsepool::chess
