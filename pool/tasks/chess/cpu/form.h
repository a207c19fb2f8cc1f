#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// What follows the first layer of a network with two perspectives, as data: which activations, which small layers.
namespace sparsepool::chess {

// What a row a of the first layer's outputs enters the next layer as, where c(a) is a clamped to 0 .. largest_sum:
// c of the first half times c of the second, element by element; c; or c squared. kCutPairs: of products that are cut.
enum class FirstActivation : std::uint8_t { kPairwise, kCutPairs, kClipped, kSquared };

constexpr bool makes_pairs(FirstActivation first) {
    return first == FirstActivation::kPairwise || first == FirstActivation::kCutPairs;
}

// The same of a hidden layer's outputs y, with largest_input: c; c squared; or c of factor * y^2, then c of y.
enum class HiddenActivation : std::uint8_t { kClipped, kSquared, kBoth };

struct HiddenLayer {
    std::size_t outputs;
    std::size_t active;  // the first so many have activations
    HiddenActivation activation;
    float factor;

    std::size_t activations() const { return (activation == HiddenActivation::kBoth ? 2 : 1) * active; }
};

// Behind the hidden layers comes one with a single output.
struct StackForm {
    static constexpr std::size_t kMostHidden = 8;

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

// std::invalid_argument says what can't be.
void check_form(const StackForm& form);

}  // namespace sparsepool::chess
