#pragma once

#include "tasks/chess/cpu/first_activation_kernel.h"
#include "tasks/chess/cpu/kernels.h"
#include "tasks/chess/cpu/small_matrix.h"

// One block of samples through the layer stack of its bucket, forward and backward; layer_stacks.h has the formulas.
//
// The inputs of the first small layer are computed here, block by block, and never leave the second cache.
namespace sparsepool::chess {
namespace {

// Parts of block.scratch.
struct StackScratch {
    float* inputs;            // [block][stride]
    float* grad_inputs;       // [block][stride]
    float* activations;       // [block][activations]
    float* grad_activations;  // [block][activations]
    float* grad_outputs;      // [block][outputs]
    float* grad_layer;        // [block][widest]: of one layer's inputs

    StackScratch(const StackLayout& layout, float* from)
        : inputs(from),
          grad_inputs(inputs + layout.block * layout.stride),
          activations(grad_inputs + layout.block * layout.stride),
          grad_activations(activations + layout.block * layout.activations),
          grad_outputs(grad_activations + layout.block * layout.activations),
          grad_layer(grad_outputs + layout.block * layout.outputs) {}
};

// The next block's rows, which follow those of this block. Prefetching them during the products saves 2 ms a direction
// at 16,384 samples and l1 = 256: the hardware's own prefetching ends at each page.
PrefetchStreams next_block(const StackLayout& layout, const StackBlock& block) {
    const std::size_t size = block.samples * layout.l1;
    return {block.own + size, block.opponent + size, size / 16};
}

// Clamps hidden layers' outputs, and multiples of their squares, to 0 .. largest_input; with hidden_one it rounds them
// down to its grid first.
struct Clamp {
    bool rounds;
    Vec top;  // in steps of the grid if it rounds
    Grid grid;

    explicit Clamp(const StackLayout& layout) : rounds(layout.hidden_one > 0), grid(layout.hidden_one) {
        const float max_input = layout.largest_input;
        top = Vec::all(rounds ? __builtin_roundf(max_input * layout.hidden_one) : max_input);
    }

    Vec forward(Vec x) const { return rounds ? grid.steps(x).clipped(top) * grid.step : x.clipped(top); }

    // The gradient of x, from the gradient of forward(x).
    Vec backward(Vec grad, Vec x) const {
        return rounds ? grad.where_within(grid.steps(x), top) : grad.where_inside(x, top);
    }
};

// Computes a hidden layer's activations from its outputs. Outputs without activations get zeros.
void activate(const StackLayout& layout, const LayerLayout& layer, const StackBlock& block, float* activations) {
    const Clamp clamp(layout);
    const Vec factor = Vec::all(layer.factor);
    const bool both = layer.activation == HiddenActivation::kBoth;
    for (std::size_t i = 0; i < block.samples; ++i) {
        const float* from = block.outputs + i * layout.outputs + layer.output;
        float* to = activations + i * layout.activations + layer.activations;
        for (std::size_t c = 0; c < layer.outputs; c += Vec::kWidth) {
            const Vec y = Vec::load(from + c);
            if (both) {
                clamp.forward(y * y * factor).store(to + c);
                clamp.forward(y).store(to + layer.outputs + c);
            } else if (layer.activation == HiddenActivation::kSquared) {
                clipped_square(y, clamp.top).store(to + c);
            } else {
                clamp.forward(y).store(to + c);
            }
        }
        for (std::size_t c = layer.active; c < layer.outputs; ++c) {
            to[c] = 0.0F;
            if (both) to[layer.outputs + c] = 0.0F;
        }
    }
}

// Computes the gradient of a hidden layer's outputs from that of its activations.
void backward_activations(const StackLayout& layout, const LayerLayout& layer, const StackBlock& block,
                          const float* grad_activations, float* grad_outputs) {
    const Clamp clamp(layout);
    const Vec factor = Vec::all(layer.factor);
    const Vec twice = Vec::all(2.0F * layer.factor);
    for (std::size_t i = 0; i < block.samples; ++i) {
        const float* outputs = block.outputs + i * layout.outputs + layer.output;
        const float* grad = grad_activations + i * layout.activations + layer.activations;
        float* to = grad_outputs + i * layout.outputs + layer.output;
        for (std::size_t c = 0; c < layer.outputs; c += Vec::kWidth) {
            const Vec y = Vec::load(outputs + c);
            const Vec g = Vec::load(grad + c);
            if (layer.activation == HiddenActivation::kBoth) {
                const Vec square_part = clamp.backward(g * (twice * y), y * y * factor);
                const Vec linear_part = clamp.backward(Vec::load(grad + layer.outputs + c), y);
                (square_part + linear_part).store(to + c);
            } else if (layer.activation == HiddenActivation::kSquared) {
                backward_clipped_square(y, g, clamp.top).store(to + c);
            } else {
                clamp.backward(g, y).store(to + c);
            }
        }
        for (std::size_t c = layer.active; c < layer.outputs; ++c) to[c] = 0.0F;
    }
}

// The dot product of two rows. `depth` is a multiple of kLanes: products are added lane by lane, then the lanes by
// halves.
float dot(const float* row, const float* weight, std::size_t depth) {
    constexpr std::size_t kVecs = kLanes / Vec::kWidth;
    Vec total[kVecs];
    UNROLL
    for (std::size_t v = 0; v < kVecs; ++v) {
        total[v] = Vec::load(row + v * Vec::kWidth) * Vec::load(weight + v * Vec::kWidth);
    }
    for (std::size_t c = kLanes; c < depth; c += kLanes) {
        UNROLL
        for (std::size_t v = 0; v < kVecs; ++v) {
            const std::size_t i = c + v * Vec::kWidth;
            total[v] = total[v] + Vec::load(row + i) * Vec::load(weight + i);
        }
    }
    alignas(64) float terms[kLanes];
    UNROLL
    for (std::size_t v = 0; v < kVecs; ++v) total[v].store(terms + v * Vec::kWidth);
    for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
        for (std::size_t c = 0; c < half; ++c) terms[c] += terms[half + c];
    }
    return terms[0];
}

// Rows that a hidden layer reads.
Strided inputs_of(const StackLayout& layout, std::size_t layer, const StackScratch& scratch) {
    if (layer == 0) return {scratch.inputs, layout.stride};
    return {scratch.activations + layout.hidden[layer].input, layout.activations};
}

// Rows that the last layer reads.
Strided last_inputs(const StackLayout& layout, const StackScratch& scratch) {
    if (layout.layers == 0) return {scratch.inputs, layout.stride};
    return {scratch.activations + layout.last_input, layout.activations};
}

// Computes the outputs of a hidden layer from its inputs.
void forward_hidden(const StackLayout& layout, const float* parameters, const StackBlock& block, std::size_t layer,
                    const StackScratch& scratch, PrefetchStreams prefetch = {}) {
    const LayerLayout& hidden = layout.hidden[layer];
    multiply(inputs_of(layout, layer, scratch), block.samples, layer == 0 ? layout.inputs : hidden.depth,
             {parameters + hidden.transposed, hidden.outputs}, hidden.outputs, parameters + hidden.bias,
             block.outputs + hidden.output, layout.outputs, prefetch);
}

// Computes the results from the outputs of the first hidden layer, or from the inputs if there is no hidden layer.
void forward_tail(const StackLayout& layout, const float* parameters, const StackBlock& block,
                  const StackScratch& scratch, float* out) {
    for (std::size_t k = 0; k < layout.layers; ++k) {
        if (k > 0) forward_hidden(layout, parameters, block, k, scratch);
        activate(layout, layout.hidden[k], block, scratch.activations);
    }
    const Strided rows = last_inputs(layout, scratch);
    for (std::size_t i = 0; i < block.samples; ++i) {
        out[i] = dot(rows.data + i * rows.stride, parameters + layout.last, layout.last_depth) +
                 parameters[layout.last_bias];
        if (layout.skips > 0) {
            const float* skip = block.outputs + i * layout.outputs + layout.skip;
            out[i] += layout.skips == 1 ? skip[0] : skip[0] - skip[1];
        }
    }
}

void stack_forward(const StackLayout& layout, const float* parameters, const StackBlock& block, float* out) {
    const StackScratch scratch(layout, block.scratch);
    activate_rows(layout, block, scratch.inputs);
    if (layout.layers > 0) forward_hidden(layout, parameters, block, 0, scratch, next_block(layout, block));
    forward_tail(layout, parameters, block, scratch, out);
}

void tail_forward(const StackLayout& layout, const float* parameters, const StackBlock& block, float* out) {
    forward_tail(layout, parameters, block, StackScratch(layout, block.scratch), out);
}

// Writes the gradient of the last layer's inputs, and adds to the gradient of its parameters.
void backward_last(const StackLayout& layout, const float* parameters, std::size_t samples, const float* grad,
                   const StackScratch& scratch, float* sums) {
    const Strided rows = last_inputs(layout, scratch);
    float* to = layout.layers == 0 ? scratch.grad_inputs : scratch.grad_activations + layout.last_input;
    for (std::size_t i = 0; i < samples; ++i) {
        const Vec g = Vec::all(grad[i]);
        sums[layout.last_bias] += grad[i];
        for (std::size_t c = 0; c < layout.last_depth; c += Vec::kWidth) {
            float* sum = sums + layout.last + c;
            (Vec::load(sum) + g * Vec::load(rows.data + i * rows.stride + c)).store(sum);
            (g * Vec::load(parameters + layout.last + c)).store(to + i * rows.stride + c);
        }
    }
}

// Adds the gradient of the outputs that skip, and adds to the gradient of a hidden layer's bias.
void backward_bias(const StackLayout& layout, const LayerLayout& layer, bool first, std::size_t samples,
                   const float* grad, float* grad_outputs, float* sums) {
    for (std::size_t i = 0; i < samples; ++i) {
        float* row = grad_outputs + i * layout.outputs + layer.output;
        if (first && layout.skips > 0) row[layout.skip] += grad[i];
        if (first && layout.skips == 2) row[layout.skip + 1] -= grad[i];
        for (std::size_t c = 0; c < layer.outputs; c += Vec::kWidth) {
            float* sum = sums + layer.bias + c;
            (Vec::load(sum) + Vec::load(row + c)).store(sum);
        }
    }
}

// Writes the gradient of the activations that a hidden layer reads. Adds it if the last layer reads them as well.
void backward_inputs(const StackLayout& layout, const LayerLayout& layer, const float* parameters, std::size_t samples,
                     const StackScratch& scratch) {
    const Strided grad{scratch.grad_outputs + layer.output, layout.outputs};
    float* to = scratch.grad_activations + layer.input;
    const bool adds = layer.input >= layout.last_input;
    multiply(grad, samples, layer.outputs, {parameters + layer.weight, layer.depth}, layer.depth, nullptr,
             adds ? scratch.grad_layer : to, adds ? layer.depth : layout.activations);
    if (!adds) return;
    for (std::size_t i = 0; i < samples; ++i) {
        for (std::size_t c = 0; c < layer.depth; c += Vec::kWidth) {
            float* sum = to + i * layout.activations + c;
            (Vec::load(sum) + Vec::load(scratch.grad_layer + i * layer.depth + c)).store(sum);
        }
    }
}

// Backward from the results to the outputs of the first hidden layer, or to the inputs if there is no hidden layer.
// Adds to the gradients of all parameters but that layer's weights.
void backward_tail(const StackLayout& layout, const float* parameters, const StackBlock& block, const float* grad,
                   const StackScratch& scratch, float* sums) {
    for (std::size_t k = 0; k < layout.layers; ++k) activate(layout, layout.hidden[k], block, scratch.activations);
    backward_last(layout, parameters, block.samples, grad, scratch, sums);
    for (std::size_t k = layout.layers; k-- > 0;) {
        const LayerLayout& layer = layout.hidden[k];
        backward_activations(layout, layer, block, scratch.grad_activations, scratch.grad_outputs);
        backward_bias(layout, layer, k == 0, block.samples, grad, scratch.grad_outputs, sums);
        if (k == 0) break;
        accumulate({scratch.grad_outputs + layer.output, layout.outputs}, inputs_of(layout, k, scratch), block.samples,
                   layer.outputs, layer.depth, sums + layer.weight, layer.depth);
        backward_inputs(layout, layer, parameters, block.samples, scratch);
    }
}

void stack_backward(const StackLayout& layout, const float* parameters, const StackBlock& block, const float* grad,
                    float* sums, float* grad_own, float* grad_opponent, bool stream) {
    const StackScratch scratch(layout, block.scratch);
    activate_rows(layout, block, scratch.inputs);
    backward_tail(layout, parameters, block, grad, scratch, sums);
    if (layout.layers > 0) {
        const LayerLayout& layer = layout.hidden[0];
        const Strided grad_outputs{scratch.grad_outputs, layout.outputs};
        accumulate(grad_outputs, {scratch.inputs, layout.stride}, block.samples, layer.outputs, layer.depth,
                   sums + layer.weight, layer.depth, next_block(layout, block));
        multiply(grad_outputs, block.samples, layer.outputs, {parameters + layer.weight, layer.depth}, layer.depth,
                 nullptr, scratch.grad_inputs, layout.stride);
    }
    backward_rows(layout, block, scratch.grad_inputs, grad_own, grad_opponent, stream);
    fence();
}

void tail_backward(const StackLayout& layout, const float* parameters, const StackBlock& block, const float* grad,
                   float* sums, float* grad_outputs) {
    const StackScratch scratch(layout, block.scratch);
    backward_tail(layout, parameters, block, grad, scratch, sums);
    const std::size_t outputs = layout.hidden[0].outputs;
    for (std::size_t i = 0; i < block.samples; ++i) {
        for (std::size_t c = 0; c < outputs; c += Vec::kWidth) {
            Vec::load(scratch.grad_outputs + i * layout.outputs + c).store(grad_outputs + i * outputs + c);
        }
    }
}

}  // namespace
}  // namespace sparsepool::chess
