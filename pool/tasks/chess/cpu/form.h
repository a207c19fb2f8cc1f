#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// What follows the first layer of a network with two perspectives, as data: which activations, which small layers.
namespace sparsepool::chess {

// The activation of a row of the first layer's outputs, which are clamped to 0 .. largest_sum. kPairwise: the first
// half times the second half, element by element; kCutPairs: the same, rounded down to a grid; kClipped: the clamped
// outputs; kSquared: their squares.
enum class FirstActivation : std::uint8_t { kPairwise, kCutPairs, kClipped, kSquared };

constexpr bool makes_pairs(FirstActivation first) {
    return first == FirstActivation::kPairwise || first == FirstActivation::kCutPairs;
}

// The activation of a hidden layer's outputs y, where c clamps to 0 .. largest_input. kClipped: c(y); kSquared: c(y)^2;
// kBoth: c(factor * y^2), then c(y).
enum class HiddenActivation : std::uint8_t { kClipped, kSquared, kBoth };

struct HiddenLayer {
    std::size_t outputs;
    std::size_t active;  // how many outputs have activations: the first ones
    HiddenActivation activation;
    float factor;

    std::size_t activations() const { return (activation == HiddenActivation::kBoth ? 2 : 1) * active; }
};

// The layers after the first one: hidden layers, then a layer with one output.
struct StackForm {
    static constexpr std::size_t kMaxHidden = 8;

    FirstActivation first;
    float largest_sum;
    std::vector<HiddenLayer> hidden;
    float largest_input;
    bool all_activations;  // the last layer sees those of all hidden layers, not the last one's alone
    std::size_t skips;     // outputs of the first hidden layer added to the result: its last, or its last but one
                           // minus its last
    // What is cut becomes the multiple of 1 / one below, as integers are, and passes the gradient. 0: nothing is.
    float product_factor;  // of products of pairs, before they are cut
    float product_one;
    float hidden_one;  // of hidden layers, before c, which passes the gradient at its ends then

    // Inputs of hidden layer `layer` (of the last layer: their number), behind a first layer of `l1` outputs.
    std::size_t inputs(std::size_t layer, std::size_t l1) const;
};

// Throws std::invalid_argument if the form is impossible.
void check_form(const StackForm& form);

}  // namespace sparsepool::chess
