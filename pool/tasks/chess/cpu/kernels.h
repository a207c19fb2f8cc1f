#pragma once

#include <cstddef>

#include "sparse/kernels.h"
#include "tasks/chess/cpu/form.h"

// The hot code of the layer stacks (layer_stacks.h), and the plain structs that it works on. Nothing here checks
// bounds.
namespace sparsepool::chess {

inline constexpr std::size_t kLanes = 16;  // widths are padded to multiples of it

// Where the numbers of a hidden layer lie. Padding of weights is zero, so that of their sums stays zero.
struct LayerLayout {
    HiddenActivation activation;
    std::size_t active;
    float factor;
    std::size_t outputs;      // padded
    std::size_t depth;        // inputs, padded
    std::size_t input;        // offset of its inputs in a row of activations; unused for the first layer
    std::size_t output;       // offset of its outputs in a row of outputs
    std::size_t activations;  // offset of its activations in a row; a second kind follows `outputs` numbers later
    std::size_t weight;       // [outputs][depth] in a bucket's parameters
    std::size_t bias;         // [outputs]
    std::size_t transposed;   // [depth][outputs]; of weights, not of their gradients
};

// The layout of all memory for one form and width. Sizes and offsets are in floats.
struct StackLayout {
    FirstActivation first;
    float largest_sum, largest_input;
    float product_factor, product_one, hidden_one;  // as in StackForm
    std::size_t l1;                                 // columns of the first layer's outputs
    std::size_t inputs;                             // of the next layer
    std::size_t padded;                             // the same, padded
    std::size_t stride;  // of rows of inputs in scratch: padded + 16, so that they don't share a cache set
    std::size_t layers;  // hidden layers
    LayerLayout hidden[StackForm::kMaxHidden];
    std::size_t outputs;                 // a row of all hidden layers' outputs
    std::size_t activations;             // a row of all their activations
    std::size_t last_input, last_depth;  // what the last layer reads of it; of its inputs if no layer is hidden
    std::size_t last, last_bias;         // in a bucket's parameters
    std::size_t skips, skip;             // in a row of outputs: the first of them
    std::size_t gradients;               // of a bucket's parameters
    std::size_t parameters;              // the same and transposed weights
    std::size_t block;                   // samples worked on at a time

    std::size_t scratch() const { return block * (2 * stride + 2 * activations + 2 * outputs + widest()); }
    std::size_t widest() const;  // row of a hidden layer's inputs
};

// At most layout.block samples of one bucket. Row i of own and of opponent: the sparse layer's output [l1] of sample i.
struct StackBlock {
    const float* own;
    const float* opponent;
    std::size_t samples;
    float* outputs;  // [samples][layout.outputs]: of hidden layers, without activations
    float* scratch;  // layout.scratch() floats, 64-byte aligned
};

// Consecutive bags first .. last - 1 of a chunk of the plan: samples of one bucket, seen from one side.
struct PlanRun {
    std::uint32_t first, last;
    std::uint32_t bucket;
    bool is_opponent;
};

// The first layer and the dense layer after it, along the plan of a batch (first_layers.h). A block is 32 columns of
// the table: 16 columns of the first half and their 16 partners for products of pairs, else 32 neighbours. A slab is up
// to 4 blocks.
struct FirstLayers {
    static constexpr std::size_t kBlock = 32;  // columns
    static constexpr std::size_t kBlocks = PlanView::kSlab / kBlock;

    const StackLayout* layout;
    const PlanView* plan;
    const PlanRun* runs;
    const std::uint32_t* first_run;  // of each chunk, and the end
    std::size_t samples;
    std::size_t buckets;
    const float* const* parameters;  // by bucket
    float* activations;  // [l1 / 32][2 * samples][32], by place in the plan: clamped outputs of the first layer
    bool stream;         // stores of activations and of grad_table bypass the caches

    // Forward.
    const float* table;  // [rows][l1]
    const float* bias;   // [l1]
    float* partial;      // [slabs][samples][outputs of the dense layer]: what each slab adds

    // Backward.
    const float* grad_outputs;  // [samples][outputs of the dense layer]
    float* grad_table;
    float* column_sums;  // [l1]: added to
    float* const* sums;  // by bucket, laid out like the parameters: added to

    std::size_t blocks() const { return layout->l1 / kBlock; }
    std::size_t slabs() const { return (blocks() + kBlocks - 1) / kBlocks; }
    std::size_t dense() const { return layout->hidden[0].outputs; }
};

struct StackKernels {
    // Writes block.outputs and out [samples].
    void (*stack_forward)(const StackLayout& layout, const float* parameters, const StackBlock& block, float* out);

    // Reads block.outputs; `grad` [samples] is that of out. Adds to `sums`, laid out like the parameters. Writes the
    // rows of grad_own and grad_opponent.
    void (*stack_backward)(const StackLayout& layout, const float* parameters, const StackBlock& block,
                           const float* grad, float* sums, float* grad_own, float* grad_opponent, bool stream);

    // The same for the layers after the first dense one, whose outputs are in block.outputs. Backward writes the
    // gradient of these, [samples][outputs]. block.own and block.opponent are not used.
    void (*tail_forward)(const StackLayout& layout, const float* parameters, const StackBlock& block, float* out);
    void (*tail_backward)(const StackLayout& layout, const float* parameters, const StackBlock& block,
                          const float* grad, float* sums, float* grad_outputs);

    // The first layer and the first dense one, for slabs [first, last). Backward for some tiles only.
    void (*first_forward)(const FirstLayers& layers, std::size_t first_slab, std::size_t last_slab, float* scratch);
    void (*first_backward)(const FirstLayers& layers, std::size_t first_tile, std::size_t last_tile,
                           std::size_t first_slab, std::size_t last_slab, float* scratch);

    static const StackKernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool::chess
