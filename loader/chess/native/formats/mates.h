#pragma once

#include <algorithm>
#include <cstdint>

#include "chess/native/board/position.h"

// Scores of mates, as all formats have them that tell mates from centipawns: n plies before mate 32000 - n.
namespace sparsepool::chess {

inline constexpr int kMateScore = 32000;   // in size: mate
inline constexpr int kMaxMatePlies = 999;  // plies that are told apart (loader/chess/engines/uci.py)
inline constexpr int kMaxPawnScore = kMateScore - kMaxMatePlies - 1;  // in size, of any other score

// White's score: `winner` mates in so many of its own moves, of which it makes the first if it is to move.
[[nodiscard]] inline std::int16_t white_mate_score(unsigned winner, int moves, unsigned side) {
    const int plies = std::clamp(2 * std::min(moves, kMaxMatePlies) - (winner == side ? 1 : 0), 0, kMaxMatePlies);
    return static_cast<std::int16_t>(winner == kWhite ? kMateScore - plies : plies - kMateScore);
}

}  // namespace sparsepool::chess
