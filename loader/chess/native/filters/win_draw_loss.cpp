#include "chess/native/filters/win_draw_loss.h"

#include <algorithm>
#include <bit>

namespace sparsepool::chess {
namespace {

// Returns e^x for |x| <= 700, within a few units of the last place: x = k * ln 2 + r, and e^x = 2^k * e^r. The C
// library's function may differ between machines.
double exponential(double x) {
    constexpr double kLog2e = 0x1.71547652b82fep0;
    constexpr double kLn2High = 0x1.62e42feep-1;  // few bits, so that k * kLn2High is exact
    constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
    constexpr double kRound = 0x1.8p52;  // adding and subtracting it rounds to a whole number
    const double k = (x * kLog2e + kRound) - kRound;
    const double r = (x - k * kLn2High) - k * kLn2Low;
    double sum = 1.0;
    for (int n = 14; n > 0; --n) sum = 1.0 + sum * r / n;  // the Taylor series, from its smallest term
    const auto exponent = static_cast<std::uint64_t>(static_cast<std::int64_t>(k) + 1023);
    return sum * std::bit_cast<double>(exponent << 52);
}

// Centre and width of the logistic curve of wins at one ply.
struct Curve {
    double a;
    double b;
};

constexpr unsigned kLastPly = WinDrawLossTables::kLastPly;

// Stockfish's win rate model: cubic polynomials of the ply, with their coefficients.
constexpr Curve curve_at(unsigned ply) {
    const double m = static_cast<double>(std::min(ply, kLastPly)) / 64.0;
    return {((-3.68389304 * m + 30.07065921) * m - 60.52878723) * m + 149.53378557,
            1.5 * (((-2.0181857 * m + 15.85685038) * m - 29.83452023) * m + 47.59078827)};
}

}  // namespace

double logistic(double x) { return 1.0 / (1.0 + exponential(std::clamp(-x, -700.0, 700.0))); }

double win_draw_loss_probability(unsigned ply, int score, int result) {
    const auto [a, b] = curve_at(ply);
    const double x = std::clamp(100.0 * score / 208.0, -kLastWinRateScore, kLastWinRateScore);  // 208 units are a pawn
    if (result > 0) return logistic((x - a) / b);
    if (result < 0) return logistic((-x - a) / b);
    return 1.0 - logistic((x - a) / b) - logistic((-x - a) / b);
}

std::uint64_t threshold_of(double probability) {
    return static_cast<std::uint64_t>(std::clamp(probability, 0.0, 1.0) * 0x1p32);
}

// Tabulates the logistic function in steps of 1 / kSteps, and the curves of all plies.
WinDrawLossTables::WinDrawLossTables() {
    for (int i = 0; i < 2 * kLastX * kSteps + 2; ++i) {
        logistic_[i] = static_cast<float>(logistic(static_cast<double>(i) / kSteps - kLastX));
    }
    for (unsigned ply = 0; ply <= kLastPly; ++ply) {
        a_[ply] = static_cast<float>(curve_at(ply).a);
        steps_per_x_[ply] = static_cast<float>(kSteps / curve_at(ply).b);
    }
}

const WinDrawLossTables& WinDrawLossTables::get() {
    static const WinDrawLossTables tables;
    return tables;
}

}  // namespace sparsepool::chess
