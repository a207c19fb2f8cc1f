#include "chess/native/batch/layout.h"

#include <algorithm>

#include "common/check.h"

namespace sparsepool::chess {

OutputBuckets make_output_buckets(std::span<const std::uint8_t> by_pieces) {
    require(by_pieces.size() == kMaxPieces + 1, "output buckets for ", by_pieces.size(), " numbers of pieces, not for ",
            kMaxPieces + 1);
    OutputBuckets buckets;
    std::uint8_t last = 0;
    for (std::size_t pieces = 0; pieces < by_pieces.size(); ++pieces) {
        const std::uint8_t bucket = by_pieces[pieces];
        const bool rises_by_one = bucket == last + 1 && pieces != 0;
        require(bucket == last || rises_by_one, "the output bucket of ", pieces, " pieces is ", int{bucket},
                ", that before it ", int{last});
        buckets.by_pieces[pieces] = bucket;
        last = bucket;
    }
    buckets.count = last + 1U;
    return buckets;
}

Layout read_layout(const batch::Regions& regions, std::uint64_t batch_size, std::uint64_t slot_bytes,
                   const FeatureSet& set, const OutputBuckets& output_buckets) {
    require(batch_size != 0 && batch_size <= batch::kMaxBatchSize, "batch size ", batch_size, " is not 1 to ",
            batch::kMaxBatchSize);
    Layout layout;
    layout.batch_size = static_cast<std::uint32_t>(batch_size);
    layout.slot_bytes = slot_bytes;
    layout.output_buckets = output_buckets;
    const std::uint64_t num_bags = layout.num_bags();
    const std::uint64_t max_active = num_bags * set.max_active;
    const std::uint64_t max_touched = std::min<std::uint64_t>(max_active, set.num_inputs);
    const std::uint64_t index_bytes = set.has_32bit_indices() ? 4 : 2;
    const std::uint64_t bag_bytes = num_bags > 1U << 16 ? 4 : 2;
    const batch::ExpectedArray expected[] = {
        // name, item size, items, region
        {"header", 8, 3, &layout.header},
        {"bucket_offsets", 4, output_buckets.count + 1, &layout.bucket_offsets},
        {"score", 2, batch_size, &layout.score},
        {"result", 1, batch_size, &layout.result},
        {"ply", 2, batch_size, &layout.ply},
        {"piece_count", 1, batch_size, &layout.piece_count},
        {"side_to_move", 1, batch_size, &layout.side_to_move},
        {"features.offsets", 4, num_bags + 1, &layout.offsets},
        {"features.features", index_bytes, max_active, &layout.features},
        {"features.touched", index_bytes, max_touched, &layout.touched},
        {"features.touched_offsets", 4, max_touched + 1, &layout.touched_offsets},
        {"features.bags", bag_bytes, max_active, &layout.bags},
    };
    batch::read_regions(regions, slot_bytes, expected);
    return layout;
}

}  // namespace sparsepool::chess
