#pragma once

#include <cstddef>

// The hot code of the layer stacks behind a table of l1 columns (layer_stacks.h), and the plain structs that it works
// on. Nothing here checks bounds.
namespace sparsepool::stockfish {

inline constexpr std::size_t kFirst = 16;           // outputs of fc_0; the last skips the other layers
inline constexpr std::size_t kPaired = kFirst - 1;  // the others: squared and clipped, and clipped, enter fc_1
inline constexpr std::size_t kHidden = 2 * kFirst;  // inputs of fc_1 as laid out here: each half has one unused place
inline constexpr std::size_t kSecond = 32;          // outputs of fc_1
inline constexpr std::size_t kBlock = 32;           // samples worked on at a time
inline constexpr float kFloor = 127.0F / 128.0F;    // of squares: the integer network shifts by 7 where 127 * 127 is 1

// One bucket's weights, as the hot code reads them.
struct StackWeights {
    const float* fc_0;             // [kFirst][padded]; columns from l1 on are zero
    const float* fc_0_transposed;  // [l1][kFirst]
    const float* fc_0_bias;        // [kFirst]
    const float* fc_1;             // [kSecond][kHidden]
    const float* fc_1_transposed;  // [kHidden][kSecond]
    const float* fc_1_bias;        // [kSecond]
    const float* fc_2;             // [kSecond]
    float fc_2_bias;
};

// Sums over samples, added to what is there; laid out like the weights.
struct StackGradients {
    float* fc_0;
    float* fc_0_bias;
    float* fc_1;
    float* fc_1_bias;
    float* fc_2;
    float* fc_2_bias;
};

// At most kBlock samples of one bucket. Row i of own and of opponent: the sparse layer's output [l1] of sample i.
struct StackBlock {
    const float* own;
    const float* opponent;
    std::size_t samples;
    std::size_t l1;
    std::size_t padded;  // l1 rounded up to 16
    std::size_t stride;  // of rows in scratch: padded + 16, so that they don't fall into one cache set
    float* first;        // [samples][kFirst]: outputs of fc_0
    float* second;       // [samples][kSecond]: outputs of fc_1 before they are clipped
    float* scratch;      // 2 * kBlock * (stride + kHidden) floats, 64-byte aligned
};

struct StackKernels {
    // Writes first, second and out [samples].
    void (*stack_forward)(const StackWeights& weights, const StackBlock& block, float* out);

    // Reads first and second; `grad` [samples] is that of out. Writes the rows of grad_own and grad_opponent.
    void (*stack_backward)(const StackWeights& weights, const StackBlock& block, const float* grad,
                           const StackGradients& sums, float* grad_own, float* grad_opponent, bool stream);

    static const StackKernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool::stockfish
