#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "chess/native/record.h"

namespace sparsepool::chess {

// Counts over entries, from which the statistics of a file are computed. Not for two threads at once.
struct Census {
    using Counts = std::vector<std::uint64_t>;

    static constexpr std::size_t kScores = 65536;  // index score + 32768
    static constexpr std::size_t kPlies = 65536;   // also of lengths, of which the last index is that and more
    static constexpr std::size_t kMaterials = 32 * 9 + 1;
    // The plane of scores and plies: intervals of kScoreStep units from -kLastScore to kLastScore, and of kPlyStep
    // plies, of which the last is open.
    static constexpr int kScoreStep = 25;
    static constexpr int kLastScore = 2000;
    static constexpr unsigned kPlyStep = 8;
    static constexpr std::size_t kPlySteps = 31;
    static constexpr int kClearMaterial = 3;  // pawns
    static constexpr std::size_t kSigns = 3;
    static constexpr std::size_t kScoreSteps = 2 * kLastScore / kScoreStep;

    std::uint64_t entries = 0;
    std::uint64_t white_to_move = 0;
    std::uint64_t in_check = 0;
    std::uint64_t captures = 0;     // not en passant
    std::uint64_t no_move = 0;      // not counted in move_types
    Counts move_types = Counts(4);  // normal, promotion, castling, en passant
    Counts piece_counts = Counts(33);
    Counts phases = Counts(25);
    Counts materials = Counts(kMaterials);                 // of both sides
    Counts own_kings = Counts(64);                         // squares as the side to move sees the board
    Counts opponent_kings = Counts(64);                    // the same view
    Counts scores = Counts(4 * kScores);                   // lost, drawn, won by the side to move; without a result
    Counts plies = Counts(kPlies);                         // of entries whose ply is known
    Counts score_plies = Counts(kScoreSteps * kPlySteps);  // of these, those with a score in the plane
    Counts lengths = Counts(kPlies);                       // entries of games and chains
    // Of positions in which one side has clearly more material: White or Black to move; the label's sign is against the
    // mover's material, level, with it. From them follows whose view labels are.
    Counts score_signs = Counts(2 * kSigns);
    Counts result_signs = Counts(2 * kSigns);

    void add(std::span<const Record> records);
    void add_length(std::uint64_t entries);
    void add(const Census& other);
};

}  // namespace sparsepool::chess
