#include "tasks/chess/cpu/form/layout.h"

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

}  // namespace sparsepool::chess
