#pragma once

#include <cstdint>

// PP_3Wide, inputs of SFNNv16: every two pawns of either colour on the same file or on neighbouring ones.
namespace sparsepool::chess {

inline constexpr std::uint32_t kNumPawnPairs = 96 * 95 / 2;

// Returns the index of a pair, as that of a cell of a triangular matrix. A pawn is given as 48 * (1 if the opponent's)
// + its square as the view sees it - 8.
[[nodiscard]] constexpr std::uint32_t pawn_pair_index(std::uint32_t one, std::uint32_t other) {
    const std::uint32_t high = one > other ? one : other;
    const std::uint32_t low = one > other ? other : one;
    return high * (high - 1) / 2 + low;
}

}  // namespace sparsepool::chess
