#include "numbers.cuh"

// The loss of scores as probabilities of winning: pool/tasks/chess/training/config.py has the formula. WIDTH is 1.
//
// Set by whoever compiles, besides numbers.cuh's:
//   SCORE, RESULT  types of the batch's scores and results

struct Loss {
    float unit, in_offset, in_scaling, out_offset, out_scaling;
    float exponent;
    float boost;  // 2 ^ weight_boost - 1
    float power, asymmetry;
};

// Marks of a sample without a score, or without a result (loader/chess/native/record.h). The other one stands for it.
constexpr float kNoScore = 32002.0F;
constexpr float kNoResult = -128.0F;

static __device__ __forceinline__ float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }

static __device__ __forceinline__ float probability(float win, float loss) { return 0.5F * (1.0F + win - loss); }

// Computes for each position its weighted loss, its weight, and the loss's gradient for the net's output. Lambda, the
// score's share of the target, is `share`, or shares[i] if positions have their own. `weights` is null if all are 1. A
// thread has a position.
KERNEL(128, 8)
win_rate_losses(const float* __restrict__ output, const SCORE* __restrict__ scores, const RESULT* __restrict__ results,
                const float* __restrict__ shares, float share, const Loss by, float* __restrict__ losses,
                float* __restrict__ weights, float* __restrict__ slopes, uint32 samples) {
    const uint64 i = item();
    if (i >= samples) return;
    const float x = output[i] * by.unit;
    const float win = sigmoid((x - by.in_offset) / by.in_scaling);
    const float loss = sigmoid((-x - by.in_offset) / by.in_scaling);
    const float predicted = probability(win, loss);
    const float score = static_cast<float>(scores[i]);
    const float result = static_cast<float>(results[i]);
    const float score_probability = probability(sigmoid((score - by.out_offset) / by.out_scaling),
                                                sigmoid((-score - by.out_offset) / by.out_scaling));
    const float outcome = result == kNoResult ? score_probability : (result + 1.0F) * 0.5F;
    const float score_target = score == kNoScore ? outcome : score_probability;
    const float lambda = shares ? shares[i] : share;
    const float target = lambda * score_target + (1.0F - lambda) * outcome;
    const float difference = target - predicted;
    const float distance = difference < 0.0F ? -difference : difference;
    const float lower = by.exponent == 1.0F ? 1.0F : powf(distance, by.exponent - 1.0F);
    const float negative_sign = difference > 0.0F ? -1.0F : 0.0F;
    const float sign = difference < 0.0F ? 1.0F : negative_sign;
    const float grad_predicted = by.exponent * lower * sign;
    const float grad_output = 0.5F * (win * (1.0F - win) + loss * (1.0F - loss)) / by.in_scaling * by.unit;
    float weight = 1.0F;
    float times = 1.0F;
    if (weights) {
        const float undecided = (score_target - 0.5F) * (score_target - 0.5F) * score_target * (1.0F - score_target);
        weight = 1.0F + by.boost * powf(undecided, by.power);
        times = by.asymmetry != 0.0F && predicted > target ? weight * (1.0F + by.asymmetry) : weight;
        weights[i] = weight;
    }
    losses[i] = lower * distance * times;
    slopes[i] = grad_predicted * grad_output * times;
}

constexpr uint32 kParts = 128;
constexpr uint32 kAhead = 16;  // numbers that are loaded before the first is added

// Numbers begin, begin + step, ... to below end, one after the other.
static __device__ __forceinline__ float sum_of(const float* numbers, uint32 begin, uint32 end, uint32 step) {
    float total = 0.0F;
    for (uint32 i = begin; i < end; i += kAhead * step) {
        float ahead[kAhead];
        UNROLL
        for (uint32 k = 0; k < kAhead; ++k) ahead[k] = k * step < end - i ? numbers[i + k * step] : 0.0F;
        UNROLL
        for (uint32 k = 0; k < kAhead; ++k) total = total + ahead[k];
    }
    return total;
}

// parts [2, kParts]: the sums of every kParts-th loss and weight. A thread has a part.
KERNEL(128, 8)
win_rate_parts(const float* __restrict__ losses, const float* __restrict__ weights, float* __restrict__ parts,
               uint32 samples) {
    const uint64 i = item();
    if (i >= 2 * kParts) return;
    const float* const numbers = i < kParts ? losses : weights;
    if (numbers) parts[i] = sum_of(numbers, static_cast<uint32>(i % kParts), samples, kParts);
}

// The mean, and what gradients are divided by: the sum of the weights. One thread.
KERNEL(128, 8)
win_rate_mean(const float* __restrict__ parts, float* __restrict__ mean, float* __restrict__ total, uint32 weighs,
              uint32 samples) {
    if (item() > 0) return;
    const float all = weighs ? sum_of(parts + kParts, 0, kParts, 1) : static_cast<float>(samples);
    mean[0] = sum_of(parts, 0, kParts, 1) / all;
    total[0] = all;
}

// The gradient of the net's output. A thread has a position.
KERNEL(128, 8)
win_rate_backward(const float* __restrict__ gradient, const float* __restrict__ slopes, const float* __restrict__ total,
                  float* __restrict__ out, uint32 samples) {
    const uint64 i = item();
    if (i < samples) out[i] = slopes[i] * (gradient[0] / total[0]);
}
