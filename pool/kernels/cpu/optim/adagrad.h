#pragma once

#include "optim/step.h"

// Adagrad (Duchi, Hazan and Singer, JMLR 12, 2011) along with the fold of its gradient, in one pass.
//
//   g = (sum of the sources) * scale + weight_decay * w;   s = s + g^2;   w = w - rate * g / (sqrt(s) + epsilon)
//
// Of a table it is row-wise (Gupta, Bengio and Weston, JMLR 15, 2014; Naumov et al., arXiv 1906.00091): s is a number a
// row, to which the mean of the row's g^2 is added. State: s.
namespace sparsepool {

struct AdagradSettings {
    double learning_rate, epsilon, weight_decay;
};

void adagrad(const StepTensors& tensors, const AdagradSettings& settings, const DenseGradient& gradient,
             std::size_t threads);
// The state has a number for each row.
void adagrad(const StepTensors& tensors, const AdagradSettings& settings, const RowGradient& gradient,
             std::size_t threads);

}  // namespace sparsepool
