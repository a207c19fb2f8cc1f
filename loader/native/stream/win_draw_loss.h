#pragma once

#include <cstdint>

namespace sparsepool::stream {

// How probable a game's result is, given a position's score and ply: the model by which Stockfish shows
// win rates, as trainers use it to leave out entries whose result contradicts their score.
// `score` in internal units and `result` (-1, 0, 1) are the side to move's. Only the four operations of
// IEEE 754 are used, so that the bits, and with them the stream, are the same on every machine (I1).
[[nodiscard]] double win_draw_loss_probability(unsigned ply, int score, int result);

}  // namespace sparsepool::stream
