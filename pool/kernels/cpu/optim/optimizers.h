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

// Adagrad (Duchi, Hazan and Singer, JMLR 12, 2011) along with the fold of its gradient, in one pass.
//
//   g = (sum of the sources) * scale + weight_decay * w;   s = s + g^2;   w = w - rate * g / (sqrt(s) + epsilon)
//
// Of a table it is row-wise (Gupta, Bengio and Weston, JMLR 15, 2014; Naumov et al., arXiv 1906.00091): s is a number a
// row, to which the mean of the row's g^2 is added. State: s.

struct AdagradSettings {
    double learning_rate, epsilon, weight_decay;
};

void adagrad(const StepTensors& tensors, const AdagradSettings& settings, const DenseGradient& gradient,
             std::size_t threads);
// The state has a number for each row.
void adagrad(const StepTensors& tensors, const AdagradSettings& settings, const RowGradient& gradient,
             std::size_t threads);

// FTRL-proximal, per coordinate (McMahan et al., "Ad click prediction: a view from the trenches", KDD 2013, algorithm
// 1) along with the fold of its gradient, in one pass.
//
//   g = (sum of the sources) * scale;   s = (sqrt(n + g^2) - sqrt(n)) / rate
//   z = z + g - s w;   n = n + g^2
//   w = 0 where |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / rate + l2)
//
// States: z, n.

struct FtrlSettings {
    double learning_rate, beta, l1, l2;
};

void ftrl(const StepTensors& tensors, const FtrlSettings& settings, const DenseGradient& gradient, std::size_t threads);
void ftrl(const StepTensors& tensors, const FtrlSettings& settings, const RowGradient& gradient, std::size_t threads);

}  // namespace sparsepool
