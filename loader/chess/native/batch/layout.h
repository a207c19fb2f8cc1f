#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "batch/regions.h"
#include "chess/native/features/feature_set.h"

// What a batch of positions has, and where it lies in a slot.
namespace sparsepool::chess {

inline constexpr std::uint32_t kMaxPieces = 32;

// The output bucket of each number of pieces: samples of one bucket share a stack of layers.
struct OutputBuckets {
    std::uint32_t count = 1;
    std::uint8_t by_pieces[kMaxPieces + 1] = {};

    // More than 32 only in records that are none. Inlined always: part of the hot code (common/isa.h).
    [[nodiscard, gnu::always_inline]] std::uint32_t of(std::uint32_t pieces) const {
        return by_pieces[pieces < kMaxPieces ? pieces : kMaxPieces];
    }
};

// Throws std::invalid_argument for any other than 33 numbers that begin with 0 and rise by at most 1.
[[nodiscard]] OutputBuckets make_output_buckets(std::span<const std::uint8_t> by_pieces);

struct Layout {
    std::uint32_t batch_size = 0;
    std::uint64_t slot_bytes = 0;
    OutputBuckets output_buckets;
    batch::Region header, bucket_offsets;
    batch::Region score, result, ply, piece_count, side_to_move;
    batch::Region offsets, features, touched, touched_offsets, bags;

    [[nodiscard]] std::uint32_t num_bags() const { return 2 * batch_size; }
};

// Throws std::invalid_argument if the table is not that of such a batch.
[[nodiscard]] Layout read_layout(const batch::Regions& regions, std::uint64_t batch_size, std::uint64_t slot_bytes,
                                 const FeatureSet& set, const OutputBuckets& output_buckets);

}  // namespace sparsepool::chess
