#include "optim/adagrad.h"

#include "common/simd.h"

namespace sparsepool {
namespace {

AdagradStep constants(const Stepped& to, const AdagradSettings& settings) {
    return {to, static_cast<float>(settings.learning_rate), static_cast<float>(settings.epsilon),
            static_cast<float>(settings.weight_decay)};
}

}  // namespace

void adagrad(const StepTensors& tensors, const AdagradSettings& settings, const DenseGradient& gradient,
             std::size_t threads) {
    walk(simd::kernels<StepKernels>().adagrad, constants(stepped(tensors, gradient), settings), gradient, threads);
}

void adagrad(const StepTensors& tensors, const AdagradSettings& settings, const RowGradient& gradient,
             std::size_t threads) {
    walk(simd::kernels<StepKernels>().adagrad, constants(stepped(tensors, gradient), settings), gradient, threads);
}

}  // namespace sparsepool
