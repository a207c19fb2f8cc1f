#pragma once

#include <cstddef>
#include <cstdint>

#include "batch/regions.h"
#include "chess/native/features/feature_set.h"

// What a batch of positions has, and where it lies in a slot.
namespace sparsepool::chess {

inline constexpr std::uint32_t kNumBuckets = 8;  // of output, by piece count

// Samples with the same number of pieces, give or take three, share a stack of layers.
[[nodiscard]] constexpr std::uint32_t bucket_of(std::uint32_t piece_count) { return (piece_count - 1) / 4; }

struct Layout {
    std::uint32_t batch_size = 0;
    std::uint64_t slot_bytes = 0;
    batch::Region header, bucket_offsets;
    batch::Region score, result, ply, piece_count, side_to_move;
    batch::Region offsets, features, touched, touched_offsets, bags;

    [[nodiscard]] std::uint32_t num_bags() const { return 2 * batch_size; }
};

// Throws std::invalid_argument if the table is not that of such a batch.
[[nodiscard]] Layout read_layout(const batch::Regions& regions, std::uint64_t batch_size, std::uint64_t slot_bytes,
                                 const FeatureSet& set);

}  // namespace sparsepool::chess
