#include "optim/adam.h"

#include <cmath>

#include "common/simd.h"

namespace sparsepool {
namespace {

AdamStep constants(const Stepped& to, const AdamSettings& settings) {
    AdamStep out{};
    out.to = to;
    out.mean_rate = static_cast<float>(1 - settings.beta1);
    out.square_keep = static_cast<float>(settings.beta2);
    out.square_rate = static_cast<float>(1 - settings.beta2);
    out.step_size = static_cast<float>(settings.learning_rate / (1 - std::pow(settings.beta1, settings.step)));
    out.root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(settings.beta2, settings.step)));
    out.epsilon = static_cast<float>(settings.epsilon);
    out.decay = settings.decoupled ? 0.0F : static_cast<float>(settings.weight_decay);
    out.shrink = settings.decoupled ? static_cast<float>(1 - settings.learning_rate * settings.weight_decay) : 1.0F;
    return out;
}

ClippedAdamWStep constants(const Stepped& to, const ClippedAdamWSettings& settings) {
    ClippedAdamWStep out{};
    out.to = to;
    out.adam.mean_rate = static_cast<float>(1 - settings.beta1);
    out.adam.square_keep = static_cast<float>(settings.beta2);
    out.adam.square_rate = static_cast<float>(1 - settings.beta2);
    out.adam.step_size = static_cast<float>(settings.learning_rate);
    out.adam.root_scale = 1.0F;
    out.adam.epsilon = static_cast<float>(settings.epsilon);
    out.adam.shrink = static_cast<float>(1 - settings.learning_rate * settings.weight_decay);
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

}  // namespace sparsepool
