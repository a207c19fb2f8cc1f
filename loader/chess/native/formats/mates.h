#pragma once

#include <algorithm>
#include <cstdint>

#include "chess/native/board/position.h"

// Scores of mates, as all formats have them that tell mates from centipawns: n plies before mate 32000 - n.
namespace sparsepool::chess {

inline constexpr int kMateScore = 32000;   // of a mate in 0 plies
inline constexpr int kMaxMatePlies = 999;  // plies that are told apart (loader/chess/engines/uci.py)
inline constexpr int kMaxPawnScore = kMateScore - kMaxMatePlies - 1;  // of any other score, in size

// Returns White's score of a position in which `winner` mates in `moves` of its own moves. `side` is to move: if that
// is the winner, the mate is one ply nearer.
[[nodiscard]] inline std::int16_t white_mate_score(unsigned winner, int moves, unsigned side) {
    const int first_ply = winner == side ? 1 : 0;
    const int plies = std::clamp(2 * std::min(moves, kMaxMatePlies) - first_ply, 0, kMaxMatePlies);
    const int winner_score = kMateScore - plies;
    return static_cast<std::int16_t>(winner == kWhite ? winner_score : -winner_score);
}

}  // namespace sparsepool::chess
