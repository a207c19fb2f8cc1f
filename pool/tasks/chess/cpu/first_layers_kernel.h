#pragma once

#include "sparse/quad_sums_kernel.h"
#include "tasks/chess/cpu/first_activation_kernel.h"
#include "tasks/chess/cpu/kernels.h"
#include "tasks/chess/cpu/small_matrix.h"

// The first layer, its activation and the dense layer after it in one pass over the plan, forward and backward.
//
// Forward, the inputs of the dense layer stay in the second cache, chunk by chunk, until their part of its outputs is
// computed. The clamped outputs of the first layer are written once, for backward. Backward, their gradient is computed
// chunk by chunk, right before it is added to the gradients of the rows.
namespace sparsepool::chess {
namespace {

constexpr std::size_t kPair = FirstLayers::kBlock;
constexpr std::size_t kHalf = kPair / 2;
constexpr std::size_t kPad = 16;  // so that rows of products don't share a cache set
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

    // The first table column of each half of a block, and the first of its inputs of the dense layer, for one side.
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
                float* copy = to + (b * stride + 1 + r) * kPair;
                Columns<kHalf>::load(row + low(b)).store(copy);
                Columns<kHalf>::load(row + high(b)).store(copy + kHalf);
            }
        }
    }
};

// Prefetches rows of the table for the next tile, a few after each quad of this one.
template <FirstActivation kFirst>
struct NextPairs {
    const PairSlab<kFirst>& slab;
    const float* table;
    const std::uint32_t* rows;
    std::size_t remaining;
    std::size_t per_quad = 1;

    void spread_over(std::size_t quads) { per_quad = quads == 0 ? remaining : remaining / quads + 1; }

    INLINED void fetch() {
        for (std::size_t i = 0; i < per_quad && remaining > 0; ++i, ++rows, --remaining) {
            const float* row = table + *rows * slab.l1;
            for (std::size_t b = 0; b < slab.blocks; ++b) {
                __builtin_prefetch(row + slab.low(b), 0, 2);
                __builtin_prefetch(row + slab.high(b), 0, 2);
            }
        }
    }
};

// Prefetches contiguous memory, a few cache lines after each quad.
struct NextLines {
    const float* from;
    std::size_t remaining;
    std::size_t per_quad = 1;

    void spread_over(std::size_t quads) { per_quad = quads == 0 ? remaining : remaining / quads + 1; }

    INLINED void fetch() {
        for (std::size_t i = 0; i < per_quad && remaining > 0; ++i, from += kLine, --remaining) {
            __builtin_prefetch(from, 0, 2);
        }
    }
};

// Half a block.
struct Lanes {
    static constexpr std::size_t kCount = kHalf / Vec::kWidth;
};

// Clamps a bag's sums of one block, which are stored for backward, and computes their products: the inputs of the dense
// layer.
template <FirstActivation kFirst>
void forward_products(const Columns<kPair>& total, const ActivationOf<kFirst>& activation, float* clamped, bool stream,
                      float* products) {
    UNROLL
    for (std::size_t v = 0; v < Lanes::kCount; ++v) {
        const Vec low = total.v[v].clipped(activation.top);
        const Vec high = total.v[Lanes::kCount + v].clipped(activation.top);
        float* const to = clamped + v * Vec::kWidth;
        if (stream) {
            low.stream(to);
            high.stream(to + kHalf);
        } else {
            low.store(to);
            high.store(to + kHalf);
        }
        float* const product = products + v * Vec::kWidth;
        if constexpr (makes_pairs(kFirst)) {
            activation.product(low, high).store(product);
        } else {
            constexpr bool kIsSquared = kFirst == FirstActivation::kSquared;
            (kIsSquared ? low * low : low).store(product);
            (kIsSquared ? high * high : high).store(product + kHalf);
        }
    }
}

// Computes the products once more, from the clamped sums.
template <FirstActivation kFirst>
void recompute_products(const float* clamped, const ActivationOf<kFirst>& activation, float* products) {
    UNROLL
    for (std::size_t v = 0; v < Lanes::kCount; ++v) {
        const std::size_t c = v * Vec::kWidth;
        const Vec low = Vec::load(clamped + c);
        const Vec high = Vec::load(clamped + kHalf + c);
        if constexpr (makes_pairs(kFirst)) {
            activation.product(low, high).store(products + c);
        } else {
            constexpr bool kIsSquared = kFirst == FirstActivation::kSquared;
            (kIsSquared ? low * low : low).store(products + c);
            (kIsSquared ? high * high : high).store(products + kHalf + c);
        }
    }
}

// Computes the gradient of a bag's sums from that of its products.
template <FirstActivation kFirst>
void backward_products(const float* clamped, const float* grad, const ActivationOf<kFirst>& activation, float* to) {
    const Vec top = activation.top;
    UNROLL
    for (std::size_t v = 0; v < Lanes::kCount; ++v) {
        const std::size_t c = v * Vec::kWidth;
        const Vec low = Vec::load(clamped + c);
        const Vec high = Vec::load(clamped + kHalf + c);
        const Vec g = activation.product_gradient(Vec::load(grad + c));
        if constexpr (makes_pairs(kFirst)) {
            (g * high).where_inside(low, top).store(to + c);
            (g * low).where_inside(high, top).store(to + kHalf + c);
        } else {
            const Vec high_grad = Vec::load(grad + kHalf + c);
            constexpr bool kIsSquared = kFirst == FirstActivation::kSquared;
            (kIsSquared ? g * (low + low) : g).where_inside(low, top).store(to + c);
            (kIsSquared ? high_grad * (high + high) : high_grad).where_inside(high, top).store(to + kHalf + c);
        }
    }
}

// The clamped sums of a chunk's bags in one block.
float* activations_of(const FirstLayers& layers, std::size_t block, const PlanChunk& chunk) {
    return layers.activations + (block * 2 * layers.samples + chunk.first_bag) * kPair;
}

std::size_t sample_of(const FirstLayers& layers, std::uint32_t bag) {
    return bag < layers.samples ? bag : bag - layers.samples;
}

// Adds to the dense layer's outputs what the products of a chunk contribute.
template <FirstActivation kFirst>
void forward_dense(const FirstLayers& layers, const PairSlab<kFirst>& slab, std::size_t chunk, const float* products,
                   float* outputs, float* partial) {
    const LayerLayout& dense = layers.layout->hidden[0];
    const std::uint32_t* bags = layers.plan->bags + layers.plan->chunks[chunk].first_bag;
    for (std::size_t r = layers.first_run[chunk]; r < layers.first_run[chunk + 1]; ++r) {
        const PlanRun& run = layers.runs[r];
        const std::size_t input = slab.input(0) + (run.is_opponent ? layers.layout->inputs / 2 : 0);
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
    const ActivationOf<kFirst> activation(*layers.layout);
    float* products = scratch;
    float* outputs = products + PlanView::kChunk * kProducts;
    float* copies = outputs + PlanView::kChunk * layers.dense();
    const std::size_t stride = tile.slab_rows();
    slab.gather(layers.table, plan.rows + tile.first_row, tile.rows, stride, copies);
    for (std::size_t b = 0; b < slab.blocks; ++b) compute_group_sums<kPair>(plan, tile, copies + b * stride * kPair);
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
            float* clamped = activations_of(layers, slab.first + b, chunk);
            const auto start = [&](std::size_t) { return bias; };
            const auto finish = [&](std::size_t bag, const Columns<kPair>& total) {
                forward_products(total, activation, clamped + bag * kPair, layers.stream,
                                 products + bag * kProducts + b * slab.kWidth);
            };
            sum_quads<kPair>(copies + b * stride * kPair, plan.bag_terms, plan.bag_quads + chunk.first_bag_quad,
                             chunk.last_bag_quad - chunk.first_bag_quad, next, start, finish);
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
    const bool is_last_slab = number + 1 == last_slab;
    const PairSlab<kFirst> next_slab(layers, is_last_slab ? number : number + 1);
    for (std::size_t t = 0; t < plan.num_tiles; ++t) {
        const bool is_last_tile = t + 1 == plan.num_tiles;
        const PlanTile& next_tile = plan.tiles[is_last_tile ? 0 : t + 1];
        const std::size_t next_rows = is_last_tile && is_last_slab ? 0 : next_tile.rows;
        const NextPairs<kFirst> next{is_last_tile ? next_slab : slab, layers.table, plan.rows + next_tile.first_row,
                                     next_rows};
        forward_tile(layers, slab, plan.tiles[t], next, partial, scratch);
    }
}

// Contiguous copies of the dense layer's weights for the inputs of a slab, and of their sums: rows by side, bucket and
// output. In the layer itself these rows are so far apart that they share a cache set.
template <FirstActivation kFirst>
struct DenseSlab {
    static constexpr std::size_t kRow = FirstLayers::kBlocks * PairSlab<kFirst>::kWidth;

    float* weights;
    float* sums;

    static std::size_t size(const FirstLayers& layers) { return 2 * layers.buckets * layers.dense() * kRow; }
    // Where the rows of a bucket and side begin.
    static std::size_t offset(const FirstLayers& layers, std::size_t bucket, bool is_opponent) {
        return ((is_opponent ? layers.buckets : 0) + bucket) * layers.dense() * kRow;
    }

    // Calls visit(row of the layer's weights, row of its sums, offset of the copies) for all rows.
    template <class Visit>
    static void visit_rows(const FirstLayers& layers, const PairSlab<kFirst>& slab, const Visit& visit) {
        const LayerLayout& dense = layers.layout->hidden[0];
        for (std::size_t side = 0; side < 2; ++side) {
            const std::size_t input = slab.input(0) + side * layers.layout->inputs / 2;
            for (std::size_t b = 0; b < layers.buckets; ++b) {
                for (std::size_t o = 0; o < dense.outputs; ++o) {
                    const std::size_t from = dense.weight + o * dense.depth + input;
                    visit(layers.parameters[b] + from, layers.sums[b] + from, offset(layers, b, side == 1) + o * kRow);
                }
            }
        }
    }

    void load(const FirstLayers& layers, const PairSlab<kFirst>& slab) const {
        const std::size_t width = slab.blocks * slab.kWidth;
        visit_rows(layers, slab, [&](const float* weight, const float* sum, std::size_t to) {
            for (std::size_t c = 0; c < width; c += Vec::kWidth) {
                Vec::load(weight + c).store(weights + to + c);
                Vec::load(sum + c).store(sums + to + c);
            }
        });
    }

    void store(const FirstLayers& layers, const PairSlab<kFirst>& slab) const {
        const std::size_t width = slab.blocks * slab.kWidth;
        visit_rows(layers, slab, [&](const float*, float* sum, std::size_t from) {
            for (std::size_t c = 0; c < width; c += Vec::kWidth) Vec::load(sums + from + c).store(sum + c);
        });
    }
};

// Backward through the dense layer, for one block and chunk. Writes the gradient of the bags' sums to rows 1, 2, ... of
// `gradients`, and adds to the gradient of the layer's weights. grad_outputs: the rows of the chunk.
template <FirstActivation kFirst>
void backward_dense(const FirstLayers& layers, const PairSlab<kFirst>& slab, const DenseSlab<kFirst>& copies,
                    std::size_t block, std::size_t chunk_index, const float* grad_outputs, float* products,
                    float* grad_products, float* gradients) {
    constexpr std::size_t kWidth = PairSlab<kFirst>::kWidth;
    const LayerLayout& dense = layers.layout->hidden[0];
    const PlanChunk& chunk = layers.plan->chunks[chunk_index];
    const float* clamped = activations_of(layers, slab.first + block, chunk);
    const ActivationOf<kFirst> activation(*layers.layout);
    const std::size_t bags = chunk.last_bag - chunk.first_bag;
    for (std::size_t i = 0; i < bags; ++i) recompute_products(clamped + i * kPair, activation, products + i * kWidth);
    for (std::size_t r = layers.first_run[chunk_index]; r < layers.first_run[chunk_index + 1]; ++r) {
        const PlanRun& run = layers.runs[r];
        const std::size_t size = run.last - run.first;
        const std::size_t offset = copies.offset(layers, run.bucket, run.is_opponent) + block * kWidth;
        const Strided grad{grad_outputs + run.first * dense.outputs, dense.outputs};
        multiply(grad, size, dense.outputs, {copies.weights + offset, copies.kRow}, kWidth, nullptr,
                 grad_products + run.first * kWidth, kWidth);
        accumulate(grad, {products + run.first * kWidth, kWidth}, size, dense.outputs, kWidth, copies.sums + offset,
                   copies.kRow);
    }
    Columns<kPair>::zero().store(gradients);
    for (std::size_t i = 0; i < bags; ++i) {
        backward_products(clamped + i * kPair, grad_products + i * kWidth, activation, gradients + (1 + i) * kPair);
    }
}

template <FirstActivation kFirst>
void write_rows(const FirstLayers& layers, const PairSlab<kFirst>& slab, const PlanTile& tile, const float* totals) {
    const PlanView& plan = *layers.plan;
    const std::size_t stride = tile.slab_rows();
    for (std::size_t r = 0; r < tile.rows; ++r) {
        float* row = layers.grad_table + plan.rows[tile.first_row + r] * slab.l1;
        const bool has_earlier_sum = plan.seen[tile.first_row + r] != 0;
        for (std::size_t b = 0; b < slab.blocks; ++b) {
            const float* total = totals + (b * stride + 1 + r) * kPair;
            for (std::size_t half = 0; half < 2; ++half) {
                float* to = row + (half == 0 ? slab.low(b) : slab.high(b));
                Columns<kHalf> sum = Columns<kHalf>::load(total + half * kHalf);
                if (has_earlier_sum) sum.add(to);
                sum.store(to, kHalf, layers.stream && !has_earlier_sum);
            }
        }
    }
}

template <FirstActivation kFirst>
void backward_tile(const FirstLayers& layers, const PairSlab<kFirst>& slab, const DenseSlab<kFirst>& copies,
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
            backward_dense(layers, slab, copies, b, c, grad_outputs, products, grad_products, gradients);
            float sums[kPair];
            Columns<kPair>::zero().store(sums);
            add_columns<kPair>(gradients + kPair, bags, sums, kPair);
            for (std::size_t i = 0; i < kHalf; ++i) {
                layers.column_sums[slab.low(b) + i] += sums[i];
                layers.column_sums[slab.high(b) + i] += sums[kHalf + i];
            }
            // Prefetches the clamped sums of the next block, which may be the first block of the next chunk.
            const bool is_last_block = b + 1 == slab.blocks;
            const bool is_end = is_last_block && c + 1 == plan.num_chunks;
            const PlanChunk& next_chunk = plan.chunks[is_last_block && !is_end ? c + 1 : c];
            const std::size_t next_lines = (next_chunk.last_bag - next_chunk.first_bag) * kPair / kLine;
            NextLines next{activations_of(layers, slab.first + (is_last_block ? 0 : b + 1), next_chunk),
                           is_end ? 0 : next_lines};
            next.spread_over(quads);
            float* block = totals + b * stride * kPair;
            const auto start = [&](std::size_t row) { return Columns<kPair>::load(block + row * kPair); };
            const auto finish = [&](std::size_t row, const Columns<kPair>& total) { total.store(block + row * kPair); };
            sum_quads<kPair>(gradients, plan.row_terms, plan.row_quads + chunk.first_row_quad, quads, next, start,
                             finish);
        }
    }
    for (std::size_t b = 0; b < slab.blocks; ++b) distribute_group_sums<kPair>(plan, tile, totals + b * stride * kPair);
    write_rows(layers, slab, tile, totals);
}

void first_forward(const FirstLayers& layers, std::size_t first_slab, std::size_t last_slab, float* scratch) {
    dispatch_activation(layers.layout->first, [&](auto first) {
        for (std::size_t s = first_slab; s < last_slab; ++s) forward_slab<first()>(layers, s, last_slab, scratch);
    });
    fence();
}

void first_backward(const FirstLayers& layers, std::size_t first_tile, std::size_t last_tile, std::size_t first_slab,
                    std::size_t last_slab, float* scratch) {
    dispatch_activation(layers.layout->first, [&](auto first) {
        for (std::size_t s = first_slab; s < last_slab; ++s) {
            const PairSlab<first()> slab(layers, s);
            using Copies = DenseSlab<first()>;
            const Copies copies{scratch, scratch + Copies::size(layers)};
            copies.load(layers, slab);
            for (std::size_t t = first_tile; t < last_tile; ++t) {
                backward_tile(layers, slab, copies, layers.plan->tiles[t], scratch + 2 * Copies::size(layers));
            }
            copies.store(layers, slab);
        }
    });
    fence();
}

}  // namespace
}  // namespace sparsepool::chess
