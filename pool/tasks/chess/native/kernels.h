#pragma once

#include <cstddef>

#include "tasks/chess/native/form.h"

// The hot code of the layer stacks (layer_stacks.h), and the plain structs that it works on. Nothing here checks
// bounds.
namespace sparsepool::chess {

inline constexpr std::size_t kLanes = 16;  // widths are padded to multiples of it

// Where one hidden layer's numbers lie. Padded places of weights are zero, and so stay those of sums.
struct LayerPlace {
    HiddenActivation activation;
    std::size_t active;
    float factor;
    std::size_t outputs;      // padded
    std::size_t depth;        // inputs, padded
    std::size_t input;        // its inputs in a row of activations; of no meaning for the first layer
    std::size_t output;       // its outputs in a row of outputs
    std::size_t activations;  // its activations in a row of them; of two kinds, the second `outputs` places behind
    std::size_t weight;       // [outputs][depth] in a bucket's parameters
    std::size_t bias;         // [outputs]
    std::size_t transposed;   // [depth][outputs]; of weights, not of their gradients
};

// Where everything lies for one form and width. Numbers are floats.
struct StackLayout {
    FirstActivation first;
    float largest_sum, largest_input;
    std::size_t l1;      // columns of the first layer's outputs
    std::size_t inputs;  // that the next layer has
    std::size_t padded;  // the same
    std::size_t stride;  // of their rows in scratch: padded + 16, so that they don't fall into one cache set
    std::size_t layers;  // hidden ones
    LayerPlace hidden[StackForm::kMostHidden];
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

struct StackKernels {
    // Writes block.outputs and out [samples].
    void (*stack_forward)(const StackLayout& layout, const float* parameters, const StackBlock& block, float* out);

    // Reads block.outputs; `grad` [samples] is that of out. Adds to `sums`, laid out like the parameters. Writes the
    // rows of grad_own and grad_opponent.
    void (*stack_backward)(const StackLayout& layout, const float* parameters, const StackBlock& block,
                           const float* grad, float* sums, float* grad_own, float* grad_opponent, bool stream);

    static const StackKernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool::chess
