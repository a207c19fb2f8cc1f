#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "chess/native/record.h"

namespace sparsepool::chess {

// viriformat's model of results: win and loss are logistic in the score, centred and widened by cubic polynomials of
// the material (1, 3, 3, 5, 9; kings 0).
struct MaterialModel {
    std::array<double, 4> centre{};  // coefficients, of the third power first
    std::array<double, 4> width{};   // above 0 wherever the material is clamped to
    std::uint32_t least_material = 0;
    std::uint32_t most_material = 0;
    std::uint32_t unit = 1;  // of the material in the polynomials
    double scale = 1.0;      // of the width

    // Returns the probability of the game's result, given the score; both as the same side sees them.
    [[nodiscard]] double probability(int material, int score, int result) const;
};

// Probabilities with which an entry is kept, which are multiplied. Empty ones are 1.
struct Chances {
    double of_all = 1.0;
    std::vector<double> by_ply;  // from 0 on; later plies have the last one's
    std::vector<double> by_piece_count;
    std::optional<MaterialModel> by_result;

    [[nodiscard]] bool any() const {
        return of_all < 1.0 || !by_ply.empty() || !by_piece_count.empty() || by_result.has_value();
    }
    [[nodiscard]] double of(const Record& record) const;
};

}  // namespace sparsepool::chess
