#pragma once

#include <vector>

#include "base/matrix.h"
#include "tasks/chess/cpu/layout.h"

// What follows the first layer of a network with two perspectives: small layers, one stack of them per output bucket;
// each sample goes through its bucket's only. Row i of `accumulated` is sample i's own perspective, row samples + i the
// opponent's. With the activations of form.h:
//
//   x     activation of own, then of the opponent's row
//   y_k   W_k x_k + b_k, for each hidden layer; x_0 = x, x_{k + 1} = activations of y_k
//   out   W x_n + b + what skips; with all activations W (x_1, ..., x_n)
//
// The derivative of a clamp is 1 inside and 0 at the borders, as torch's hardtanh has it; of what was cut before, 1 at
// the borders, too, as torch's clamp. Samples come ordered by bucket. Each bucket's samples are cut in pieces of fixed
// length whose sums are then added in order, so the bits do not depend on the number of threads. All input is checked
// first; std::invalid_argument names what is wrong.
namespace sparsepool::chess {

// Floats that forward leaves for backward, of one sample: the hidden layers' outputs.
std::size_t memory_width(const StackForm& form);

// borders[b] .. borders[b + 1]: the samples of bucket b. memory [samples][memory_width], out [samples].
void stacks_forward(ConstMatrix accumulated, const Stacks& stacks, const std::vector<std::size_t>& borders,
                    Matrix memory, float* out, std::size_t threads);

// `grad` [samples] is that of out. Writes the gradients of all parameters and of `accumulated`.
void stacks_backward(ConstMatrix accumulated, const Stacks& stacks, const std::vector<std::size_t>& borders,
                     ConstMatrix memory, const float* grad, const StackSums& sums, Matrix grad_accumulated,
                     std::size_t threads);

// The same from the outputs of the first hidden layer on, which are in `memory` (first_layers.h); and backward to their
// gradient, grad_outputs [samples][outputs]. The sums of that layer's weights become zero.
void tails_forward(const Stacks& stacks, const std::vector<std::size_t>& borders, Matrix memory, float* out,
                   std::size_t threads);
void tails_backward(const Stacks& stacks, const std::vector<std::size_t>& borders, ConstMatrix memory,
                    const float* grad, const StackSums& sums, Matrix grad_outputs, std::size_t threads);

}  // namespace sparsepool::chess
