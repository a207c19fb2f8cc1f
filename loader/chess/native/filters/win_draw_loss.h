#pragma once

#include <algorithm>
#include <cstdint>

namespace sparsepool::chess {

// How probable a game's result is, given a position's score and ply: the model by which Stockfish shows
// win rates, as trainers use it to leave out entries whose result contradicts their score.
// `score` in internal units and `result` (-1, 0, 1) are the side to move's. Only the four operations of
// IEEE 754 are used, so that the bits, and with them the stream, are the same on every machine (I1).
[[nodiscard]] double win_draw_loss_probability(unsigned ply, int score, int result);

// 1 / (1 + e^-x), with the same bits everywhere.
[[nodiscard]] double logistic(double x);

// A random word below this keeps an entry that is to be kept with this probability.
[[nodiscard]] std::uint64_t threshold_of(double probability);

inline constexpr double kLastWinRateScore = 2000.0;  // in the model's unit

// Decides by tables whether an entry is kept. The probability from the tables differs between machines, by kError at
// most. Where that could change the decision (for two of ten thousand words), the exact probability decides. So the
// decision is the same on every machine.
class WinDrawLossTables {
  public:
    static constexpr unsigned kLastPly = 240;  // from here on the model stays the same

    static const WinDrawLossTables& get();

    // Returns whether random_word < threshold_of(win_draw_loss_probability(ply, score, result)).
    [[nodiscard]] bool keeps(std::uint32_t random_word, unsigned ply, int score, int result) const {
        const float difference = estimate(ply, score, result) - static_cast<float>(random_word) * 0x1p-32F;
        if (difference > -kError && difference < kError) [[unlikely]] {
            return random_word < threshold_of(win_draw_loss_probability(ply, score, result));
        }
        return difference > 0.0F;
    }

  private:
    static constexpr float kError = 1e-4F;
    static constexpr int kSteps = 32;  // of the logistic function's table to one
    static constexpr int kLastX = 16;  // beyond, it is 0 or 1

    WinDrawLossTables();

    // Estimates win_draw_loss_probability with an error of at most kError.
    [[nodiscard]] float estimate(unsigned ply, int score, int result) const {
        constexpr auto kLast = static_cast<float>(kLastWinRateScore);
        const unsigned row = std::min(ply, kLastPly);
        const float x = std::clamp(static_cast<float>(score) * (100.0F / 208.0F), -kLast, kLast);
        const float win = logistic_at((x - a_[row]) * steps_per_x_[row]);
        const float loss = logistic_at((-x - a_[row]) * steps_per_x_[row]);
        const float decided = result > 0 ? win : loss;
        return result == 0 ? 1.0F - win - loss : decided;
    }

    // Interpolates the logistic function linearly, with an error of at most 1.3e-5. `steps`: x * kSteps.
    [[nodiscard]] float logistic_at(float steps) const {
        constexpr float kEnd = kLastX * kSteps;
        const float position = std::min(std::max(steps, -kEnd), kEnd) + kEnd;
        const int index = static_cast<int>(position);
        const float fraction = position - static_cast<float>(index);
        return logistic_[index] + fraction * (logistic_[index + 1] - logistic_[index]);
    }

    float logistic_[2 * kLastX * kSteps + 2];
    float a_[kLastPly + 1];
    float steps_per_x_[kLastPly + 1];
};

}  // namespace sparsepool::chess
