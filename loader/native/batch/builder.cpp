#include "batch/builder.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "simd.h"
#include "testing/crash_point.h"

namespace sparsepool::batch {

Builder::Builder(const Layout& layout, const features::FeatureSet& set) : layout_(layout), set_(set) {
    const std::size_t num_bags = layout.num_bags();
    const std::size_t num_blocks = (num_bags + 511) / 512;  // of 8 groups of 64 bags (bit_columns_avx512.h)
    std::size_t buckets = 0;
    std::size_t planes = 0;
    for (const features::Part& part : set.parts) {
        buckets = std::max<std::size_t>(buckets, part.buckets);
        planes = std::max<std::size_t>(planes, part.planes);
    }
    const std::size_t max_items = 64 * 8 * num_blocks;
    scratch_.samples = allocate<chess::Record>(layout.batch_size);
    scratch_.views = allocate<std::uint8_t>(num_bags);
    scratch_.counts = allocate<std::uint32_t>(set.num_inputs);
    std::memset(scratch_.counts, 0, set.num_inputs * sizeof *scratch_.counts);
    scratch_.bags = allocate<std::byte>(layout.bags.count * layout.bags.item_size);
    scratch_.grouped = allocate<std::uint16_t>(num_bags + 64 * buckets);
    scratch_.masks = allocate<std::uint64_t>(num_blocks * 8 * (64 * planes + 1));
    scratch_.item_masks = allocate<std::uint64_t>(max_items + 8);
    scratch_.item_groups = allocate<std::uint16_t>(max_items + 8);
    scratch_.item_ends = allocate<std::uint32_t>(64);
    scratch_.item_places = allocate<std::uint32_t>(max_items + 1);
}

template <class Item>
Item* Builder::allocate(std::size_t count) {
    constexpr std::size_t kLine = 64;
    constexpr std::size_t kHugePage = 2 << 20;
    const std::size_t wanted = count * sizeof(Item);
    const std::size_t alignment = wanted < kHugePage / 2 ? kLine : kHugePage;
    const std::size_t bytes = (wanted + alignment - 1) / alignment * alignment;
    memory_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(alignment, bytes)), &std::free);
    if (!memory_.back()) throw std::bad_alloc();
    if (alignment == kHugePage) ::madvise(memory_.back().get(), bytes, MADV_HUGEPAGE);  // a wish: it may be refused
    return reinterpret_cast<Item*>(memory_.back().get());
}

void Builder::build(std::uint64_t number, std::span<const chess::Record> head, std::span<const chess::Record> body,
                    std::byte* slot) {
    const BatchParts parts{head.data(), head.size(), body.data(), body.size(), &set_, layout_.bags.item_size == 4};
    const SlotArrays arrays = arrays_in_slot(slot);
    arrays.header[0] = number;
    crash_point("feeder.mid_batch");
    kernels().build_batch(parts, scratch_, arrays);
}

SlotArrays Builder::arrays_in_slot(std::byte* slot) const {
    return {
        .header = array_in<std::uint64_t>(slot, layout_.header),
        .bucket_offsets = array_in<std::uint32_t>(slot, layout_.bucket_offsets),
        .score = array_in<std::int16_t>(slot, layout_.score),
        .result = array_in<std::int8_t>(slot, layout_.result),
        .ply = array_in<std::uint16_t>(slot, layout_.ply),
        .piece_count = array_in<std::uint8_t>(slot, layout_.piece_count),
        .side_to_move = array_in<std::uint8_t>(slot, layout_.side_to_move),
        .offsets = array_in<std::uint32_t>(slot, layout_.offsets),
        .features = array_in<std::byte>(slot, layout_.features),
        .touched = array_in<std::byte>(slot, layout_.touched),
        .touched_offsets = array_in<std::uint32_t>(slot, layout_.touched_offsets),
        .bags = array_in<std::byte>(slot, layout_.bags),
    };
}

}  // namespace sparsepool::batch
