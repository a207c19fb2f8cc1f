#pragma once

#include "optim/step.h"

// FTRL-proximal, per coordinate (McMahan et al., "Ad click prediction: a view from the trenches", KDD 2013, algorithm
// 1) along with the fold of its gradient, in one pass.
//
//   g = (sum of the sources) * scale;   s = (sqrt(n + g^2) - sqrt(n)) / rate
//   z = z + g - s w;   n = n + g^2
//   w = 0 where |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / rate + l2)
//
// States: z, n.
namespace sparsepool {

struct FtrlSettings {
    double learning_rate, beta, l1, l2;
};

void ftrl(const StepTensors& tensors, const FtrlSettings& settings, const DenseGradient& gradient, std::size_t threads);
void ftrl(const StepTensors& tensors, const FtrlSettings& settings, const RowGradient& gradient, std::size_t threads);

}  // namespace sparsepool
