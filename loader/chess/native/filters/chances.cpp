#include "chess/native/filters/chances.h"

#include <algorithm>

#include "chess/native/filters/pieces.h"
#include "chess/native/filters/win_draw_loss.h"

namespace sparsepool::chess {
namespace {

// Evaluates a polynomial whose highest power comes first (Horner's rule).
double polynomial(const std::array<double, 4>& coefficients, double x) {
    double value = 0.0;
    for (const double coefficient : coefficients) value = value * x + coefficient;
    return value;
}

// Returns the chance at an index, or the last one for larger indices; 1 for an empty table.
double chance_at(const std::vector<double>& table, std::size_t index) {
    return table.empty() ? 1.0 : table[std::min(index, table.size() - 1)];
}

}  // namespace

// Win and loss are logistic in the score, with centre a and width b.
double MaterialModel::probability(int material, int score, int result) const {
    const auto clamped = std::clamp(static_cast<std::uint32_t>(material), least_material, most_material);
    const double m = static_cast<double>(clamped) / static_cast<double>(unit);
    const double a = polynomial(centre, m);
    const double b = polynomial(width, m) * scale;
    const double win = logistic((static_cast<double>(score) - a) / b);
    const double loss = logistic((-static_cast<double>(score) - a) / b);
    if (result > 0) return win;
    if (result < 0) return loss;
    return std::max(0.0, 1.0 - win - loss);
}

double Chances::of(const Record& record) const {
    const double by_place =
        of_all * chance_at(by_ply, record.ply) * chance_at(by_piece_count, count_squares(record.occupied));
    const bool has_score_and_result = record.score != kNoScore && record.result() != kNoResult;
    if (!by_result || !has_score_and_result) return by_place;
    return by_place * by_result->probability(PieceSets(record).material(), record.score, record.result());
}

}  // namespace sparsepool::chess
