#pragma once

#include <vector>

#include "arrays/matrix.h"

// The small layers of the NNUE task behind its sparse layer, one stack per output bucket; each sample goes through
// its bucket's only. Row i of `accumulated` is sample i's own perspective, row samples + i the opponent's. Per
// perspective, with a the row and c(x) = min(max(x, 0), 1):
//
//   products  p[j] = c(a[j]) * c(a[l1 / 2 + j]);   x = p of own, p of opponent                       [l1]
//   fc_0      y = W0 x + b0                                                                         [16]
//   hidden    h = c(127 / 128 * y[0..14]^2), c(y[0..14])                                            [30]
//   fc_1      z = W1 h + b1                                                                         [32]
//   out       W2 c(z) + b2 + y[15]
//
// The derivative of c is 1 inside 0 .. 1 and 0 at the borders, as torch has it. Samples come ordered by bucket. Each
// bucket's samples are cut in pieces of fixed length whose sums are then added in order, so the bits do not depend on
// the number of threads. All input is checked first; std::invalid_argument names what is wrong.
namespace sparsepool::stockfish {

// All buckets, one after the other; `Float` is const for parameters.
template <class Float>
struct StacksOf {
    std::size_t buckets, l1;
    Float* fc_0;       // [buckets][16][l1]
    Float* fc_0_bias;  // [buckets][16]
    Float* fc_1;       // [buckets][32][30]
    Float* fc_1_bias;  // [buckets][32]
    Float* fc_2;       // [buckets][32]
    Float* fc_2_bias;  // [buckets]
};
using Stacks = StacksOf<const float>;
using StackSums = StacksOf<float>;

// What forward leaves for backward.
template <class Float>
struct StackMemory {
    Float* first;   // [samples][16]: y
    Float* second;  // [samples][32]: z
};

// borders[b] .. borders[b + 1]: the samples of bucket b.
void stacks_forward(ConstMatrix accumulated, const Stacks& stacks, const std::vector<std::size_t>& borders,
                    StackMemory<float> memory, float* out, std::size_t threads);

// `grad` [samples] is that of out. Writes the gradients of all parameters and of `accumulated`.
void stacks_backward(ConstMatrix accumulated, const Stacks& stacks, const std::vector<std::size_t>& borders,
                     StackMemory<const float> memory, const float* grad, const StackSums& sums, Matrix grad_accumulated,
                     std::size_t threads);

}  // namespace sparsepool::stockfish
