#include "batch/regions.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/check.h"

namespace sparsepool::batch {
namespace {

// The name of an array that begins before another one ends; empty if there is none.
std::string find_overlap(const Regions& regions) {
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

void take_regions(const Regions& regions, std::uint64_t slot_bytes, std::span<const ExpectedArray> expected) {
    require(regions.size() == expected.size(), "the table of regions has other arrays than this writer makes");
    for (const ExpectedArray& array : expected) {
        const auto found = regions.find(array.name);
        require(found != regions.end(), "the table of regions lacks '", array.name, "'");
        const Region& region = found->second;
        const bool fits = region.item_size == array.item_size && region.count == array.count &&
                          region.offset % region.item_size == 0 && region.offset <= slot_bytes &&
                          region.count * region.item_size <= slot_bytes - region.offset;
        require(fits, "region '", array.name, "' has another type, size or place than it must");
        *array.region = region;
    }
    const std::string overlap = find_overlap(regions);
    require(overlap.empty(), "region '", overlap, "' begins inside another one");
}

}  // namespace sparsepool::batch
