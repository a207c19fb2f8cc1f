#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

// Where the arrays of a batch lie in a slot. The layout is decided in one place, loader/stream/schema.py; a writer
// checks its table once, so that it can't be made to write past a region.
namespace sparsepool::batch {

struct Region {
    std::uint64_t offset = 0;  // bytes from the start of the slot
    std::uint64_t count = 0;
    std::uint64_t item_size = 0;
};

using Regions = std::map<std::string, Region>;

inline constexpr std::uint64_t kMaxBatchSize = 1 << 20;

// An array that a writer writes, and where its region is stored.
struct ExpectedArray {
    const char* name;
    std::uint64_t item_size;
    std::uint64_t count;
    Region* region;
};

// Stores the regions of the expected arrays. Throws std::invalid_argument unless the table has just these arrays, in
// these sizes, inside the slot and without overlap.
void read_regions(const Regions& regions, std::uint64_t slot_bytes, std::span<const ExpectedArray> expected);

template <class Item>
[[nodiscard]] Item* array_in(std::byte* slot, const Region& region) {
    return reinterpret_cast<Item*>(slot + region.offset);
}

}  // namespace sparsepool::batch
