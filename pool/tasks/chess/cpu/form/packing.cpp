#include "tasks/chess/cpu/form/packing.h"

#include <algorithm>

namespace sparsepool::chess {
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
