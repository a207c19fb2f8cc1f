#include "chess/native/filters/chances.h"

#include <algorithm>

#include "chess/native/filters/pieces.h"
#include "chess/native/filters/win_draw_loss.h"

namespace sparsepool::chess {
namespace {

double polynomial(const std::array<double, 4>& coefficients, double x) {
    double value = 0.0;
    for (const double coefficient : coefficients) value = value * x + coefficient;
    return value;
}

double at(const std::vector<double>& table, std::size_t index) {
    return table.empty() ? 1.0 : table[std::min(index, table.size() - 1)];
}

}  // namespace

double MaterialModel::probability(int material, int score, int result) const {
    const auto counted = std::clamp(static_cast<std::uint32_t>(material), least_material, most_material);
    const double m = static_cast<double>(counted) / static_cast<double>(unit);
    const double a = polynomial(centre, m);
    const double b = polynomial(width, m) * scale;
    const double win = logistic((static_cast<double>(score) - a) / b);
    const double loss = logistic((-static_cast<double>(score) - a) / b);
    const double decided = result > 0 ? win : loss;
    return result == 0 ? std::max(0.0, 1.0 - win - loss) : decided;
}

double Chances::of(const Record& record) const {
    double chance = of_all * at(by_ply, record.ply) * at(by_piece_count, count_squares(record.occupied));
    const bool has_both = record.score != kNoScore && record.result() != kNoResult;
    if (by_result && has_both)
        chance *= by_result->probability(Pieces(record).material(), record.score, record.result());
    return chance;
}

}  // namespace sparsepool::chess
