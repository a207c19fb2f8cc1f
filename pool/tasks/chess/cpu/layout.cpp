#include "tasks/chess/cpu/layout.h"

#include <algorithm>

namespace sparsepool::chess {
namespace {

constexpr std::size_t kWide = 2048;  // inputs: beyond, blocks of 32 rows leave the second cache

std::size_t rounded_up(std::size_t width) { return (width + kLanes - 1) / kLanes * kLanes; }

// Places of a bucket's parameters, one array after the other.
class Places {
  public:
    std::size_t take(std::size_t size) {
        const std::size_t place = end_;
        end_ += rounded_up(size);
        return place;
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
    layout.padded = rounded_up(layout.inputs);
    layout.stride = layout.padded + kLanes;
    layout.layers = form.hidden.size();
    layout.block = layout.inputs > kWide ? 16 : 32;
    Places places;
    std::size_t depth = layout.padded;
    std::size_t input = 0;
    for (std::size_t k = 0; k < layout.layers; ++k) {
        const HiddenLayer& layer = form.hidden[k];
        LayerPlace& place = layout.hidden[k];
        place.activation = layer.activation;
        place.active = layer.active;
        place.factor = layer.factor;
        place.outputs = rounded_up(layer.outputs);
        place.depth = depth;
        place.input = input;
        place.output = layout.outputs;
        place.activations = layout.activations;
        place.weight = places.take(place.outputs * depth);
        place.bias = places.take(place.outputs);
        input = layout.activations;
        depth = (layer.activation == HiddenActivation::kBoth ? 2 : 1) * place.outputs;
        layout.outputs += place.outputs;
        layout.activations += depth;
    }
    layout.last_input = form.all_activations ? 0 : input;
    layout.last_depth = form.all_activations && layout.layers > 0 ? layout.activations : depth;
    layout.last = places.take(layout.last_depth);
    layout.last_bias = places.take(1);
    layout.gradients = places.end();
    for (std::size_t k = 0; k < layout.layers; ++k) {
        layout.hidden[k].transposed = places.take(layout.hidden[k].outputs * layout.hidden[k].depth);
    }
    layout.parameters = places.end();
    layout.skips = form.skips;
    layout.skip = form.skips > 0 ? form.hidden[0].outputs - form.skips : 0;
    return layout;
}

namespace {

// visit(first input, how many, their place in a row) for each run of a layer's inputs that lie side by side. Each kind
// of activations of a hidden layer has its padded outputs' places.
template <class Visit>
void each_run(const StackForm& form, const StackLayout& layout, std::size_t layer, const Visit& visit) {
    if (layer == 0) {
        visit(std::size_t{0}, layout.inputs, std::size_t{0});
        return;
    }
    const bool all = form.all_activations && layer == layout.layers;
    std::size_t input = 0;
    std::size_t place = 0;
    for (std::size_t k = all ? 0 : layer - 1; k < layer; ++k) {
        const std::size_t kinds = layout.hidden[k].activation == HiddenActivation::kBoth ? 2 : 1;
        for (std::size_t kind = 0; kind < kinds; ++kind) {
            visit(input, layout.hidden[k].active, place);
            input += layout.hidden[k].active;
            place += layout.hidden[k].outputs;
        }
    }
}

void add(const float* from, std::size_t size, float* to) {
    for (std::size_t i = 0; i < size; ++i) to[i] += from[i];
}

// visit(row in the model, place in a bucket's parameters, size) for all numbers of a bucket.
template <class Float, class Visit>
void each_part(const StacksOf<Float>& stacks, const StackLayout& layout, std::size_t bucket, const Visit& visit) {
    const StackForm& form = stacks.form;
    for (std::size_t k = 0; k <= layout.layers; ++k) {
        const bool last = k == layout.layers;
        const std::size_t outputs = last ? 1 : form.hidden[k].outputs;
        const std::size_t inputs = form.inputs(k, stacks.l1);
        const std::size_t weight = last ? layout.last : layout.hidden[k].weight;
        const std::size_t depth = last ? layout.last_depth : layout.hidden[k].depth;
        for (std::size_t o = 0; o < outputs; ++o) {
            Float* row = stacks.layers[k].weight + (bucket * outputs + o) * inputs;
            each_run(form, layout, k, [&](std::size_t first, std::size_t size, std::size_t place) {
                visit(row + first, weight + o * depth + place, size);
            });
        }
        visit(stacks.layers[k].bias + bucket * outputs, last ? layout.last_bias : layout.hidden[k].bias, outputs);
    }
}

}  // namespace

Floats packed(const Stacks& stacks, const StackLayout& layout, std::size_t bucket) {
    Floats memory = Floats::zeros(layout.parameters);
    float* to = memory.data();
    each_part(stacks, layout, bucket,
              [&](const float* row, std::size_t place, std::size_t size) { std::copy_n(row, size, to + place); });
    for (std::size_t k = 0; k < layout.layers; ++k) {
        const LayerPlace& layer = layout.hidden[k];
        for (std::size_t o = 0; o < layer.outputs; ++o) {
            for (std::size_t i = 0; i < layer.depth; ++i) {
                to[layer.transposed + i * layer.outputs + o] = to[layer.weight + o * layer.depth + i];
            }
        }
    }
    return memory;
}

void clear(const StackSums& sums) {
    for (std::size_t k = 0; k <= sums.form.hidden.size(); ++k) {
        const std::size_t outputs = k == sums.form.hidden.size() ? 1 : sums.form.hidden[k].outputs;
        std::fill_n(sums.layers[k].weight, sums.buckets * outputs * sums.form.inputs(k, sums.l1), 0.0F);
        std::fill_n(sums.layers[k].bias, sums.buckets * outputs, 0.0F);
    }
}

void add_sums(const float* from, const StackLayout& layout, std::size_t bucket, const StackSums& to) {
    each_part(to, layout, bucket,
              [&](float* row, std::size_t place, std::size_t size) { add(from + place, size, row); });
}

}  // namespace sparsepool::chess
