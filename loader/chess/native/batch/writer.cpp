#include "chess/native/batch/writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "chess/native/kernels.h"
#include "common/crash_point.h"
#include "common/simd.h"

namespace sparsepool::chess {

PositionBatchWriter::PositionBatchWriter(const Layout& layout, std::shared_ptr<const FeatureSet> features)
    : layout_(layout), set_(std::move(features)) {
    const FeatureSet& set = *set_;
    const std::size_t num_bags = layout.num_bags();
    const std::size_t num_blocks = (num_bags + 511) / 512;  // of 8 groups of 64 bags (bit_columns_avx512.h)
    std::size_t buckets = 0;
    std::size_t planes = 0;
    for (const Part& part : set.parts) {
        buckets = std::max<std::size_t>(buckets, part.buckets);
        planes = std::max<std::size_t>(planes, part.planes);
    }
    const std::size_t max_items = 64 * 8 * num_blocks;
    scratch_.samples = allocate<Record>(layout.batch_size);
    scratch_.views = allocate<std::uint8_t>(num_bags);
    scratch_.counts = allocate<std::uint32_t>(set.num_inputs);
    std::memset(scratch_.counts, 0, set.num_inputs * sizeof *scratch_.counts);
    scratch_.bags = allocate<std::byte>(layout.bags.count * layout.bags.item_size);
    if (set.has_relations()) {
        constexpr std::size_t kSlack = 512;  // a bag is written before it is known whether it fits (relations/)
        const std::size_t room = layout.features.count / 2 + kSlack;
        scratch_.opponents = allocate<std::byte>(room * layout.features.item_size);
        scratch_.threats_room = static_cast<std::uint32_t>(room);
        scratch_.threats = allocate<std::uint32_t>(2 * room);
    }
    scratch_.grouped = allocate<std::uint16_t>(num_bags + 64 * buckets);
    scratch_.masks = allocate<std::uint64_t>(num_blocks * 8 * (64 * planes + 1));
    scratch_.item_masks = allocate<std::uint64_t>(max_items + 8);
    scratch_.item_groups = allocate<std::uint16_t>(max_items + 8);
    scratch_.item_ends = allocate<std::uint32_t>(64);
    scratch_.item_places = allocate<std::uint32_t>(max_items + 1);
}

template <class Item>
Item* PositionBatchWriter::allocate(std::size_t count) {
    memory_.push_back(allocate_aligned<std::byte>(count * sizeof(Item)));
    return reinterpret_cast<Item*>(memory_.back().get());
}

void PositionBatchWriter::write(std::uint64_t number, const stream::RecordSpan& head, const stream::RecordSpan& body,
                                std::byte* slot) {
    const std::span<const Record> first = head.as<Record>();
    const std::span<const Record> rest = body.as<Record>();
    const BatchParts parts{first.data(),
                           first.size(),
                           rest.data(),
                           rest.size(),
                           set_.get(),
                           &layout_.output_buckets,
                           layout_.bags.item_size == 4};
    const SlotArrays arrays = arrays_in_slot(slot);
    arrays.header[0] = number;
    crash_point("feeder.mid_batch");
    simd::kernels<Kernels>().build_batch(parts, scratch_, arrays);
}

SlotArrays PositionBatchWriter::arrays_in_slot(std::byte* slot) const {
    return {
        .header = batch::array_in<std::uint64_t>(slot, layout_.header),
        .bucket_offsets = batch::array_in<std::uint32_t>(slot, layout_.bucket_offsets),
        .score = batch::array_in<std::int16_t>(slot, layout_.score),
        .result = batch::array_in<std::int8_t>(slot, layout_.result),
        .ply = batch::array_in<std::uint16_t>(slot, layout_.ply),
        .piece_count = batch::array_in<std::uint8_t>(slot, layout_.piece_count),
        .side_to_move = batch::array_in<std::uint8_t>(slot, layout_.side_to_move),
        .offsets = batch::array_in<std::uint32_t>(slot, layout_.offsets),
        .features = batch::array_in<std::byte>(slot, layout_.features),
        .touched = batch::array_in<std::byte>(slot, layout_.touched),
        .touched_offsets = batch::array_in<std::uint32_t>(slot, layout_.touched_offsets),
        .bags = batch::array_in<std::byte>(slot, layout_.bags),
    };
}

}  // namespace sparsepool::chess
