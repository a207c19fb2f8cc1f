#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "features/feature_set.h"

// Where the arrays of a batch lie in a slot. The layout is decided in one place, loader/schema.py; this is
// its table, checked once, so that the writer can't be made to write past a region.
namespace sparsepool::batch {

struct Region {
    std::uint64_t offset = 0;  // bytes from the start of the slot
    std::uint64_t count = 0;
    std::uint64_t item_size = 0;
};

inline constexpr std::uint32_t kNumBuckets = 8;  // of output, by piece count
inline constexpr std::uint64_t kMaxBatchSize = 1 << 20;

// Samples with the same number of pieces, give or take three, share a stack of layers.
[[nodiscard]] constexpr std::uint32_t bucket_of(std::uint32_t piece_count) { return (piece_count - 1) / 4; }

struct Layout {
    std::uint32_t batch_size = 0;
    std::uint64_t slot_bytes = 0;
    Region header, bucket_offsets;
    Region score, result, ply, piece_count, side_to_move;
    Region offsets, features, touched, touched_offsets, bags;

    [[nodiscard]] std::uint32_t num_bags() const { return 2 * batch_size; }
};

// Takes over the table; gives back what is wrong with it, or an empty text.
[[nodiscard]] std::string read_layout(const std::map<std::string, Region>& regions, std::uint64_t batch_size,
                                      std::uint64_t slot_bytes, const features::FeatureSet& set, Layout& layout);

template <class Item>
[[nodiscard]] Item* array_in(std::byte* slot, const Region& region) {
    return reinterpret_cast<Item*>(slot + region.offset);
}

}  // namespace sparsepool::batch
