#include "tasks/chess/cpu/form.h"

#include "common/check.h"

namespace sparsepool::chess {

std::size_t StackForm::inputs(std::size_t layer, std::size_t l1) const {
    if (layer == 0) return makes_pairs(first) ? l1 / 2 * 2 : 2 * l1;
    if (layer < hidden.size() || !all_activations) return hidden[layer - 1].activations();
    std::size_t sum = 0;
    for (const HiddenLayer& hidden_layer : hidden) sum += hidden_layer.activations();
    return sum;
}

void check_form(const StackForm& form) {
    const std::size_t layers = form.hidden.size();
    require(layers <= StackForm::kMaxHidden, "hidden has ", layers, " layers, must have at most ",
            StackForm::kMaxHidden);
    require(form.largest_sum > 0 && form.largest_input > 0, "largest_sum and largest_input must be above 0");
    for (const HiddenLayer& layer : form.hidden) {
        require(layer.outputs > 0 && layer.active > 0 && layer.active <= layer.outputs, "a hidden layer has ",
                layer.outputs, " outputs, ", layer.active, " of them active: 1 to all can be");
        require(form.hidden_one == 0 || layer.activation != HiddenActivation::kSquared,
                "hidden_one: squares of clamped outputs are not cut");
    }
    require((form.first == FirstActivation::kCutPairs) == (form.product_one > 0) && form.hidden_one >= 0,
            "product_one and hidden_one must not be negative, and product_one needs products of pairs");
    require(form.skips <= 2 && (form.skips == 0 || (layers > 0 && form.skips <= form.hidden[0].outputs)), "skips is ",
            form.skips, ", must be 0, or 1 or 2 outputs of the first hidden layer");
}

}  // namespace sparsepool::chess
