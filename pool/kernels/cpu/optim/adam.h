#pragma once

#include "optim/step.h"

// Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1; weight decay added to the gradient, or decoupled as in Loshchilov
// and Hutter, arXiv 1711.05101) along with the fold of its gradient: sums, moments and weights in one pass over memory.
//
//   g = (sum of the sources) * scale + decay * w;   w = shrink * w
//   m = m + (1 - beta1) (g - m);   v = beta2 v + (1 - beta2) g^2
//   w = w - rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//
// decay is weight_decay and shrink 1, or decoupled: 0 and 1 - rate * weight_decay. States: m, v.
namespace sparsepool {

struct AdamSettings {
    double learning_rate, beta1, beta2, epsilon, weight_decay;
    bool decoupled;
    double step;  // t, from 1
};

void adam(const StepTensors& tensors, const AdamSettings& settings, const DenseGradient& gradient, std::size_t threads);
void adam(const StepTensors& tensors, const AdamSettings& settings, const RowGradient& gradient, std::size_t threads);

// bullet's AdamW (jw1912/bullet): averages that are not corrected for their first zeros, decoupled weight decay, and
// weights that stay between two numbers.
//
//   g = (sum of the sources) * scale;   w = (1 - rate * weight_decay) w
//   m = m + (1 - beta1) (g - m);   v = beta2 v + (1 - beta2) g^2
//   w = clamp(w - rate * m / (sqrt(v) + epsilon), lowest, highest)
//
// States: m, v.
struct ClippedAdamWSettings {
    double learning_rate, beta1, beta2, epsilon, weight_decay, lowest, highest;
};

void clipped_adamw(const StepTensors& tensors, const ClippedAdamWSettings& settings, const DenseGradient& gradient,
                   std::size_t threads);
void clipped_adamw(const StepTensors& tensors, const ClippedAdamWSettings& settings, const RowGradient& gradient,
                   std::size_t threads);

}  // namespace sparsepool
