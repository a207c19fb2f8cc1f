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
    scratch_.samples = allocate<Record>(layout.batch_size);
    scratch_.views = allocate<std::uint8_t>(layout.num_bags());
    scratch_.counts = allocate<std::uint32_t>(set.num_inputs);
    std::memset(scratch_.counts, 0, set.num_inputs * sizeof *scratch_.counts);
    scratch_.bags = allocate<std::byte>(layout.bags.count * layout.bags.item_size);
    if (set.has_relations()) allocate_relations();
    allocate_bit_columns();
}

void PositionBatchWriter::allocate_relations() {
    constexpr std::size_t kSlack = 512;  // a bag is written before it is known whether it fits (relations/)
    const std::size_t capacity = layout_.features.count / 2 + kSlack;
    scratch_.opponents = allocate<std::byte>(capacity * layout_.features.item_size);
    scratch_.threats_capacity = static_cast<std::uint32_t>(capacity);
    scratch_.threats = allocate<std::uint32_t>(2 * capacity);
}

// Allocates the memory of bit_columns_avx512.h: bags in groups of 64, and these in blocks of 8.
void PositionBatchWriter::allocate_bit_columns() {
    constexpr std::size_t kGroup = 64;
    constexpr std::size_t kBlock = 8;
    constexpr std::size_t kInputs = 64;  // of a plane
    const std::size_t num_bags = layout_.num_bags();
    const std::size_t num_blocks = (num_bags + kGroup * kBlock - 1) / (kGroup * kBlock);
    const std::size_t max_items = kInputs * kBlock * num_blocks;
    std::size_t max_buckets = 0;
    std::size_t max_planes = 0;
    for (const PieceInputs& inputs : set_->piece_inputs) {
        max_buckets = std::max<std::size_t>(max_buckets, inputs.buckets);
        max_planes = std::max<std::size_t>(max_planes, inputs.planes);
    }
    scratch_.grouped = allocate<std::uint16_t>(num_bags + kGroup * max_buckets);
    scratch_.masks = allocate<std::uint64_t>(num_blocks * kBlock * (kInputs * max_planes + 1));
    scratch_.item_masks = allocate<std::uint64_t>(max_items + kBlock);
    scratch_.item_groups = allocate<std::uint16_t>(max_items + kBlock);
    scratch_.item_ends = allocate<std::uint32_t>(kInputs);
    scratch_.item_offsets = allocate<std::uint32_t>(max_items + 1);
}

template <class Item>
Item* PositionBatchWriter::allocate(std::size_t count) {
    memory_.push_back(allocate_aligned<std::byte>(count * sizeof(Item)));
    return reinterpret_cast<Item*>(memory_.back().get());
}

void PositionBatchWriter::write(std::uint64_t number, const stream::RecordSpan& head, const stream::RecordSpan& body,
                                std::byte* slot) {
    const std::span<const Record> head_records = head.as<Record>();
    const std::span<const Record> body_records = body.as<Record>();
    const BatchRecords batch{.head = head_records.data(),
                             .head_size = head_records.size(),
                             .body = body_records.data(),
                             .body_size = body_records.size(),
                             .set = set_.get(),
                             .output_buckets = &layout_.output_buckets,
                             .has_32bit_bags = layout_.bags.item_size == 4};
    const SlotArrays arrays = arrays_in_slot(slot);
    arrays.header[0] = number;
    crash_point("feeder.mid_batch");
    simd::kernels<Kernels>().build_batch(batch, scratch_, arrays);
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
