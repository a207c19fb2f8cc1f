#include "optim/ftrl.h"

#include "common/simd.h"

namespace sparsepool {
namespace {

FtrlStep constants(const Stepped& to, const FtrlSettings& settings) {
    return {to, static_cast<float>(1 / settings.learning_rate), static_cast<float>(settings.beta),
            static_cast<float>(settings.l1), static_cast<float>(settings.l2)};
}

}  // namespace

void ftrl(const StepTensors& tensors, const FtrlSettings& settings, const DenseGradient& gradient,
          std::size_t threads) {
    walk(simd::kernels<StepKernels>().ftrl, constants(stepped(tensors, gradient), settings), gradient, threads);
}

void ftrl(const StepTensors& tensors, const FtrlSettings& settings, const RowGradient& gradient, std::size_t threads) {
    walk(simd::kernels<StepKernels>().ftrl, constants(stepped(tensors, gradient), settings), gradient, threads);
}

}  // namespace sparsepool
