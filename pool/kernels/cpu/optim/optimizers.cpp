#include "optim/optimizers.h"

#include <cmath>

#include "common/simd.h"

namespace sparsepool {
namespace {

AdamStep constants(const Stepped& to, const AdamSettings& settings) {
    AdamStep out{};
    out.to = to;
    out.numbers.mean_rate = static_cast<float>(1 - settings.beta1);
    out.numbers.square_keep = static_cast<float>(settings.beta2);
    out.numbers.square_rate = static_cast<float>(1 - settings.beta2);
    out.numbers.step_size = static_cast<float>(settings.learning_rate / (1 - std::pow(settings.beta1, settings.step)));
    out.numbers.root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(settings.beta2, settings.step)));
    out.numbers.epsilon = static_cast<float>(settings.epsilon);
    out.numbers.decay = settings.decoupled ? 0.0F : static_cast<float>(settings.weight_decay);
    out.numbers.shrink =
        settings.decoupled ? static_cast<float>(1 - settings.learning_rate * settings.weight_decay) : 1.0F;
    return out;
}

ClippedAdamWStep constants(const Stepped& to, const ClippedAdamWSettings& settings) {
    ClippedAdamWStep out{};
    out.to = to;
    out.numbers.mean_rate = static_cast<float>(1 - settings.beta1);
    out.numbers.square_keep = static_cast<float>(settings.beta2);
    out.numbers.square_rate = static_cast<float>(1 - settings.beta2);
    out.numbers.step_size = static_cast<float>(settings.learning_rate);
    out.numbers.root_scale = 1.0F;
    out.numbers.epsilon = static_cast<float>(settings.epsilon);
    out.numbers.shrink = static_cast<float>(1 - settings.learning_rate * settings.weight_decay);
    out.lowest = static_cast<float>(settings.lowest);
    out.highest = static_cast<float>(settings.highest);
    return out;
}

}  // namespace

void adam(const StepTensors& tensors, const AdamSettings& settings, const DenseGradient& gradient,
          std::size_t threads) {
    walk(simd::kernels<StepKernels>().adam, constants(stepped(tensors, gradient), settings), gradient, threads);
}

void adam(const StepTensors& tensors, const AdamSettings& settings, const RowGradient& gradient, std::size_t threads) {
    walk(simd::kernels<StepKernels>().adam, constants(stepped(tensors, gradient), settings), gradient, threads);
}

void clipped_adamw(const StepTensors& tensors, const ClippedAdamWSettings& settings, const DenseGradient& gradient,
                   std::size_t threads) {
    walk(simd::kernels<StepKernels>().clipped_adamw, constants(stepped(tensors, gradient), settings), gradient,
         threads);
}

void clipped_adamw(const StepTensors& tensors, const ClippedAdamWSettings& settings, const RowGradient& gradient,
                   std::size_t threads) {
    walk(simd::kernels<StepKernels>().clipped_adamw, constants(stepped(tensors, gradient), settings), gradient,
         threads);
}

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
