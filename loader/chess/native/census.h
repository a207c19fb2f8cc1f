#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "chess/native/record.h"

namespace sparsepool::chess {

// Counts over entries, from which any statistic of a file follows. Not for two threads at once.
struct Census {
    std::uint64_t entries = 0;
    std::uint64_t white_to_move = 0;
    std::uint64_t in_check = 0;
    std::uint64_t captures = 0;
    std::array<std::uint64_t, 3> results{};     // loss, draw, win
    std::array<std::uint64_t, 4> move_types{};  // normal, promotion, castling, en passant
    std::array<std::uint64_t, 33> piece_counts{};
    std::vector<std::uint64_t> scores = std::vector<std::uint64_t>(65536);  // index score + 32768
    std::vector<std::uint64_t> plies = std::vector<std::uint64_t>(65536);

    void add(std::span<const Record> records);
};

}  // namespace sparsepool::chess
