#include "batch/regions.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/check.h"

namespace sparsepool::batch {
namespace {

// The name of an array that begins before the array in front of it ends; empty if there is none.
std::string find_overlap(const Regions& regions) {
    std::vector<std::pair<Region, std::string>> by_offset;
    for (const auto& [name, region] : regions) by_offset.emplace_back(region, name);
    std::sort(by_offset.begin(), by_offset.end(),
              [](const auto& a, const auto& b) { return a.first.offset < b.first.offset; });
    std::uint64_t end = 0;
    for (const auto& [region, name] : by_offset) {
        if (region.offset < end) return name;
        end = region.offset + region.count * region.item_size;
    }
    return {};
}

}  // namespace

void read_regions(const Regions& regions, std::uint64_t slot_bytes, std::span<const ExpectedArray> expected) {
    require(regions.size() == expected.size(), "the table of regions has other arrays than this writer makes");
    for (const ExpectedArray& array : expected) {
        const auto entry = regions.find(array.name);
        require(entry != regions.end(), "the table of regions lacks '", array.name, "'");
        const Region& region = entry->second;
        const bool has_expected_size = region.item_size == array.item_size && region.count == array.count;
        const bool fits = has_expected_size && region.offset % region.item_size == 0 && region.offset <= slot_bytes &&
                          region.count * region.item_size <= slot_bytes - region.offset;
        require(fits, "region '", array.name, "' has another type, size or place than it must");
        *array.region = region;
    }
    const std::string overlap = find_overlap(regions);
    require(overlap.empty(), "region '", overlap, "' begins inside another one");
}

}  // namespace sparsepool::batch
