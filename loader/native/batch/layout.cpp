#include "batch/layout.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace sparsepool::batch {
namespace {

struct Expected {
    const char* name;
    Region Layout::*member;
    std::uint64_t item_size;
    std::uint64_t count;
};

// The name of an array that begins before another one ends; empty if there is none.
std::string find_overlap(const std::map<std::string, Region>& regions) {
    std::vector<std::pair<Region, std::string>> order;
    for (const auto& [name, region] : regions) order.emplace_back(region, name);
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first.offset < b.first.offset; });
    std::uint64_t end = 0;
    for (const auto& [region, name] : order) {
        if (region.offset < end) return name;
        end = region.offset + region.count * region.item_size;
    }
    return {};
}

}  // namespace

std::string read_layout(const std::map<std::string, Region>& regions, std::uint64_t batch_size,
                        std::uint64_t slot_bytes, const features::FeatureSet& set, Layout& layout) {
    if (batch_size == 0 || batch_size > kMaxBatchSize) {
        return "batch size " + std::to_string(batch_size) + " is not 1 to " + std::to_string(kMaxBatchSize);
    }
    layout.batch_size = static_cast<std::uint32_t>(batch_size);
    layout.slot_bytes = slot_bytes;
    const std::uint64_t num_bags = layout.num_bags();
    const std::uint64_t active = num_bags * set.max_active;
    const std::uint64_t touched = std::min<std::uint64_t>(active, set.num_inputs);
    const std::uint64_t number = set.wide() ? 4 : 2;
    const std::uint64_t bag = num_bags > 1U << 16 ? 4 : 2;
    const Expected table[] = {
        {"header", &Layout::header, 8, 3},
        {"bucket_offsets", &Layout::bucket_offsets, 4, kNumBuckets + 1},
        {"score", &Layout::score, 2, batch_size},
        {"result", &Layout::result, 1, batch_size},
        {"ply", &Layout::ply, 2, batch_size},
        {"piece_count", &Layout::piece_count, 1, batch_size},
        {"side_to_move", &Layout::side_to_move, 1, batch_size},
        {"features.offsets", &Layout::offsets, 4, num_bags + 1},
        {"features.features", &Layout::features, number, active},
        {"features.touched", &Layout::touched, number, touched},
        {"features.touched_offsets", &Layout::touched_offsets, 4, touched + 1},
        {"features.bags", &Layout::bags, bag, active},
    };
    if (regions.size() != std::size(table)) return "the table of regions has other arrays than this writer makes";
    for (const Expected& expected : table) {
        const auto found = regions.find(expected.name);
        if (found == regions.end()) return std::string("the table of regions lacks '") + expected.name + "'";
        const Region& region = found->second;
        const bool fits = region.item_size == expected.item_size && region.count == expected.count &&
                          region.offset % region.item_size == 0 && region.offset <= slot_bytes &&
                          region.count * region.item_size <= slot_bytes - region.offset;
        if (!fits) return std::string("region '") + expected.name + "' has another type, size or place than it must";
        layout.*expected.member = region;
    }
    const std::string overlap = find_overlap(regions);
    return overlap.empty() ? std::string{} : "region '" + overlap + "' begins inside another one";
}

}  // namespace sparsepool::batch
