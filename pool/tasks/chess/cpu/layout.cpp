#include "tasks/chess/cpu/layout.h"

#include <algorithm>

namespace sparsepool::chess {
namespace {

constexpr std::size_t kMaxInputs = 2048;  // with more, blocks of 32 rows leave the second cache

std::size_t pad(std::size_t width) { return (width + kLanes - 1) / kLanes * kLanes; }

// Allocates the arrays of a bucket's parameters, one after another.
class Allocator {
  public:
    // The offset of an array of `size` numbers.
    std::size_t allocate(std::size_t size) {
        const std::size_t offset = end_;
        end_ += pad(size);
        return offset;
    }

    std::size_t end() const { return end_; }

  private:
    std::size_t end_ = 0;
};

}  // namespace

std::size_t StackLayout::widest() const {
    std::size_t widest = 0;
    for (std::size_t k = 1; k < layers; ++k) widest = std::max(widest, hidden[k].depth);
    return widest;
}

// Lays out rows of outputs and activations, and a bucket's parameters: weights and biases, then transposed weights.
StackLayout layout_of(const StackForm& form, std::size_t l1) {
    StackLayout layout{};
    layout.first = form.first;
    layout.largest_sum = form.largest_sum;
    layout.largest_input = form.largest_input;
    layout.product_factor = form.product_factor;
    layout.product_one = form.product_one;
    layout.hidden_one = form.hidden_one;
    layout.l1 = l1;
    layout.inputs = form.inputs(0, l1);
    layout.padded = pad(layout.inputs);
    layout.stride = layout.padded + kLanes;
    layout.layers = form.hidden.size();
    layout.block = layout.inputs > kMaxInputs ? 16 : 32;
    Allocator parameters;
    std::size_t depth = layout.padded;
    std::size_t input = 0;
    for (std::size_t k = 0; k < layout.layers; ++k) {
        const HiddenLayer& layer = form.hidden[k];
        LayerLayout& hidden = layout.hidden[k];
        hidden.activation = layer.activation;
        hidden.active = layer.active;
        hidden.factor = layer.factor;
        hidden.outputs = pad(layer.outputs);
        hidden.depth = depth;
        hidden.input = input;
        hidden.output = layout.outputs;
        hidden.activations = layout.activations;
        hidden.weight = parameters.allocate(hidden.outputs * depth);
        hidden.bias = parameters.allocate(hidden.outputs);
        input = layout.activations;
        depth = (layer.activation == HiddenActivation::kBoth ? 2 : 1) * hidden.outputs;
        layout.outputs += hidden.outputs;
        layout.activations += depth;
    }
    layout.last_input = form.all_activations ? 0 : input;
    layout.last_depth = form.all_activations && layout.layers > 0 ? layout.activations : depth;
    layout.last = parameters.allocate(layout.last_depth);
    layout.last_bias = parameters.allocate(1);
    layout.gradients = parameters.end();
    for (std::size_t k = 0; k < layout.layers; ++k) {
        layout.hidden[k].transposed = parameters.allocate(layout.hidden[k].outputs * layout.hidden[k].depth);
    }
    layout.parameters = parameters.end();
    layout.skips = form.skips;
    layout.skip = form.skips > 0 ? form.hidden[0].outputs - form.skips : 0;
    return layout;
}

namespace {

// Calls visit(first input, count, position in a row) for each run of a layer's inputs that lie side by side. Each kind
// of activations of a hidden layer takes as many positions as the layer has padded outputs.
template <class Visit>
void visit_input_runs(const StackForm& form, const StackLayout& layout, std::size_t layer, const Visit& visit) {
    if (layer == 0) {
        visit(std::size_t{0}, layout.inputs, std::size_t{0});
        return;
    }
    const bool reads_all = form.all_activations && layer == layout.layers;
    std::size_t input = 0;
    std::size_t position = 0;
    for (std::size_t k = reads_all ? 0 : layer - 1; k < layer; ++k) {
        const LayerLayout& hidden = layout.hidden[k];
        const std::size_t kinds = hidden.activation == HiddenActivation::kBoth ? 2 : 1;
        for (std::size_t kind = 0; kind < kinds; ++kind) {
            visit(input, hidden.active, position);
            input += hidden.active;
            position += hidden.outputs;
        }
    }
}

void add(const float* from, std::size_t size, float* to) {
    for (std::size_t i = 0; i < size; ++i) to[i] += from[i];
}

// Calls visit(numbers in the model, offset in the bucket's parameters, count) for all numbers of a bucket.
template <class Float, class Visit>
void visit_parameters(const StacksOf<Float>& stacks, const StackLayout& layout, std::size_t bucket,
                      const Visit& visit) {
    const StackForm& form = stacks.form;
    for (std::size_t k = 0; k <= layout.layers; ++k) {
        const bool is_last = k == layout.layers;
        const std::size_t outputs = is_last ? 1 : form.hidden[k].outputs;
        const std::size_t inputs = form.inputs(k, stacks.l1);
        const std::size_t weight = is_last ? layout.last : layout.hidden[k].weight;
        const std::size_t bias = is_last ? layout.last_bias : layout.hidden[k].bias;
        const std::size_t depth = is_last ? layout.last_depth : layout.hidden[k].depth;
        for (std::size_t o = 0; o < outputs; ++o) {
            Float* row = stacks.layers[k].weight + (bucket * outputs + o) * inputs;
            visit_input_runs(form, layout, k, [&](std::size_t first, std::size_t count, std::size_t position) {
                visit(row + first, weight + o * depth + position, count);
            });
        }
        visit(stacks.layers[k].bias + bucket * outputs, bias, outputs);
    }
}

}  // namespace

// Copies weights and biases with padding, and transposes the weights of hidden layers.
Floats pack_bucket(const Stacks& stacks, const StackLayout& layout, std::size_t bucket) {
    Floats memory = Floats::zeros(layout.parameters);
    float* to = memory.data();
    visit_parameters(stacks, layout, bucket, [&](const float* from, std::size_t offset, std::size_t count) {
        std::copy_n(from, count, to + offset);
    });
    for (std::size_t k = 0; k < layout.layers; ++k) {
        const LayerLayout& layer = layout.hidden[k];
        for (std::size_t o = 0; o < layer.outputs; ++o) {
            for (std::size_t i = 0; i < layer.depth; ++i) {
                to[layer.transposed + i * layer.outputs + o] = to[layer.weight + o * layer.depth + i];
            }
        }
    }
    return memory;
}

void clear(const StackSums& sums) {
    const std::size_t num_hidden = sums.form.hidden.size();
    for (std::size_t k = 0; k <= num_hidden; ++k) {
        const std::size_t outputs = k == num_hidden ? 1 : sums.form.hidden[k].outputs;
        std::fill_n(sums.layers[k].weight, sums.buckets * outputs * sums.form.inputs(k, sums.l1), 0.0F);
        std::fill_n(sums.layers[k].bias, sums.buckets * outputs, 0.0F);
    }
}

void add_sums(const float* from, const StackLayout& layout, std::size_t bucket, const StackSums& to) {
    visit_parameters(to, layout, bucket,
                     [&](float* sum, std::size_t offset, std::size_t count) { add(from + offset, count, sum); });
}

}  // namespace sparsepool::chess
