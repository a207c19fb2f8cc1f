#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

// Scores in comments: pawns as centipawns, n plies before mate 32000 - n.
namespace sparsepool::pgn {

// White's score that a comment of Lichess gives, [%eval 0.17], of the position behind the move; or why there is none.
struct Evaluation {
    std::optional<std::int16_t> score;
    bool wrong = false;
};
[[nodiscard]] Evaluation evaluation_in(std::string_view comment, unsigned side);

// The mover's score that a match program's comment begins with: +0.31/12, -M4.
[[nodiscard]] std::optional<std::int16_t> engine_score_in(std::string_view comment);

// A score as a comment that the last one reads. Scores of mates become -M4.
char* write_engine_score(std::int16_t score, char* out);

inline constexpr std::size_t kMaxEngineScore = 10;

}  // namespace sparsepool::pgn
