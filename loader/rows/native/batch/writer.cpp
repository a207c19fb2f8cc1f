#include "rows/native/batch/writer.h"

#include <cstring>
#include <span>
#include <type_traits>

#include "common/crash_point.h"

namespace sparsepool::rows {

void RowBatchWriter::write(std::uint64_t number, const stream::RecordSpan& head, const stream::RecordSpan& body,
                           std::byte* slot) {
    rows_.clear();
    for (const stream::RecordSpan* part : {&head, &body}) {
        for (std::size_t i = 0; i < part->size(); ++i) {
            rows_.push_back(reinterpret_cast<const std::uint32_t*>((*part)[i].data()));
        }
    }
    auto* header = batch::array_in<std::uint64_t>(slot, layout_.header);
    header[0] = number;
    crash_point("feeder.mid_batch");
    auto* buckets = batch::array_in<std::uint32_t>(slot, layout_.bucket_offsets);
    buckets[0] = 0;
    buckets[1] = layout_.batch_size;
    write_dense(slot);
    words_.clear();
    for (const std::uint32_t* row : rows_) words_.push_back(row + shape_.head_words());
    std::vector<std::uint64_t> sizes(2 * shape_.fields.size());
    for (std::size_t field = 0; field < shape_.fields.size(); ++field) {
        std::uint32_t active = 0;
        sizes[2 * field + 1] = write_field(field, slot, active);
        sizes[2 * field] = active;
    }
    for (std::size_t i = 0; i < shape_.order.size(); ++i) {
        header[1 + 2 * i] = sizes[2 * shape_.order[i]];
        header[2 + 2 * i] = sizes[2 * shape_.order[i] + 1];
    }
}

void RowBatchWriter::write_dense(std::byte* slot) const {
    for (std::size_t i = 0; i < shape_.dense.size(); ++i) {
        auto* numbers = batch::array_in<std::uint32_t>(slot, layout_.dense[i]);  // bits of float32
        for (std::size_t row = 0; row < rows_.size(); ++row) numbers[row] = rows_[row][i];
    }
    if (!shape_.qid) return;
    auto* qids = batch::array_in<std::byte>(slot, layout_.qid);
    for (std::size_t row = 0; row < rows_.size(); ++row) std::memcpy(qids + 8 * row, rows_[row] + shape_.qid_at(), 8);
}

std::uint32_t RowBatchWriter::write_field(std::size_t field, std::byte* slot, std::uint32_t& active) {
    auto* offsets = batch::array_in<std::uint32_t>(slot, layout_.fields[field].offsets);
    const std::size_t count_at = shape_.counts_at() + field;
    active = 0;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
        offsets[row] = active;
        active += rows_[row][count_at];
    }
    offsets[rows_.size()] = active;
    const bool wide = layout_.fields[field].features.item_size == 4;
    const bool wide_bags = layout_.fields[field].bags.item_size == 4;
    const auto write = [&](auto number, auto bag) {
        using Number = decltype(number);
        using Bag = decltype(bag);
        return shape_.fields[field].values ? write_arrays<Number, Bag>(field, slot, valued_)
                                           : write_arrays<Number, Bag>(field, slot, active_);
    };
    if (wide) return wide_bags ? write(std::uint32_t{}, std::uint32_t{}) : write(std::uint32_t{}, std::uint16_t{});
    return wide_bags ? write(std::uint16_t{}, std::uint32_t{}) : write(std::uint16_t{}, std::uint16_t{});
}

template <class Number, class Bag, class Item>
std::uint32_t RowBatchWriter::write_arrays(std::size_t field, std::byte* slot, GrowingMemory<Item> (&memory)[2]) {
    constexpr bool kValues = std::is_same_v<Item, batch::ValuedFeature>;
    const FieldLayout& place = layout_.fields[field];
    const std::size_t count_at = shape_.counts_at() + field;
    const std::uint32_t active = batch::array_in<std::uint32_t>(slot, place.offsets)[rows_.size()];
    auto* features = batch::array_in<Number>(slot, place.features);
    float* values = kValues ? batch::array_in<float>(slot, place.values) : nullptr;
    for (GrowingMemory<Item>& half : memory) half.resize_to_overwrite(active);
    batch::FeatureSort<Item> sort(shape_.fields[field].size(), memory[0].data(), memory[1].data());
    for (std::size_t row = 0; row < rows_.size(); ++row) {
        const std::uint32_t* word = words_[row];
        for (std::uint32_t left = rows_[row][count_at]; left != 0; --left) {
            sort.count(*word);
            *features++ = static_cast<Number>(*word++);
            if constexpr (kValues) std::memcpy(values++, word++, sizeof *values);
        }
        words_[row] = word;
    }
    const auto* offsets = batch::array_in<std::uint32_t>(slot, place.offsets);
    features -= active;
    if constexpr (kValues) values -= active;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
        for (std::uint32_t i = offsets[row]; i != offsets[row + 1]; ++i) {
            const auto bag = static_cast<std::uint32_t>(row);
            if constexpr (kValues) {
                sort.put({features[i], bag, values[i]});
            } else {
                sort.put({features[i], bag});
            }
        }
    }
    const std::span<const Item> sorted = sort.finish();
    return batch::write_columns<Number, Bag, Item>(
        sorted, batch::array_in<Number>(slot, place.touched),
        batch::array_in<std::uint32_t>(slot, place.touched_offsets), batch::array_in<Bag>(slot, place.bags),
        kValues ? batch::array_in<float>(slot, place.column_values) : nullptr);
}

}  // namespace sparsepool::rows
