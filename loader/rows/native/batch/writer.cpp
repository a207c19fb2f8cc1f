#include "rows/native/batch/writer.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <type_traits>

#include "common/crash_point.h"

namespace sparsepool::rows {

RowBatchWriter::RowBatchWriter(const Layout& layout, const RowShape& shape)
    : layout_(layout), shape_(shape), by_field_(shape.tables.size()) {
    std::iota(by_field_.begin(), by_field_.end(), 0);
    std::ranges::sort(by_field_, {}, [this](std::size_t table) { return shape_.tables[table].begin; });
}

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
    for (const std::size_t table : by_field_) {
        std::uint32_t active = 0;
        header[2 + 2 * table] = write_table(table, slot, active);
        header[1 + 2 * table] = active;
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

std::uint32_t RowBatchWriter::write_table(std::size_t table, std::byte* slot, std::uint32_t& active) {
    const Table& own = shape_.tables[table];
    auto* offsets = batch::array_in<std::uint32_t>(slot, layout_.tables[table].offsets);
    active = 0;
    for (std::size_t field = own.begin; field < own.end; ++field) {
        for (const std::uint32_t* row : rows_) {
            *offsets++ = active;
            active += row[shape_.counts_at() + field];
        }
    }
    *offsets = active;
    const bool wide = layout_.tables[table].features.item_size == 4;
    const bool wide_bags = layout_.tables[table].bags.item_size == 4;
    const auto write = [&](auto number, auto bag) {
        using Number = decltype(number);
        using Bag = decltype(bag);
        return shape_.fields[own.begin].values ? write_arrays<Number, Bag>(table, slot, valued_)
                                               : write_arrays<Number, Bag>(table, slot, active_);
    };
    if (wide) return wide_bags ? write(std::uint32_t{}, std::uint32_t{}) : write(std::uint32_t{}, std::uint16_t{});
    return wide_bags ? write(std::uint16_t{}, std::uint32_t{}) : write(std::uint16_t{}, std::uint16_t{});
}

template <class Number, class Bag, class Item>
std::uint32_t RowBatchWriter::write_arrays(std::size_t table, std::byte* slot, GrowingMemory<Item> (&memory)[2]) {
    constexpr bool kValues = std::is_same_v<Item, batch::ValuedFeature>;
    const TableLayout& place = layout_.tables[table];
    const Table& own = shape_.tables[table];
    const std::size_t bags = (own.end - own.begin) * rows_.size();
    const auto* offsets = batch::array_in<std::uint32_t>(slot, place.offsets);
    const std::uint32_t active = offsets[bags];
    auto* features = batch::array_in<Number>(slot, place.features);
    float* values = kValues ? batch::array_in<float>(slot, place.values) : nullptr;
    for (GrowingMemory<Item>& half : memory) half.resize_to_overwrite(active);
    batch::FeatureSort<Item> sort(shape_.fields[own.begin].size(), memory[0].data(), memory[1].data());
    for (std::size_t field = own.begin; field < own.end; ++field) {
        for (std::size_t row = 0; row < rows_.size(); ++row) {
            const std::uint32_t* word = words_[row];
            for (std::uint32_t left = rows_[row][shape_.counts_at() + field]; left != 0; --left) {
                sort.count(*word);
                *features++ = static_cast<Number>(*word++);
                if constexpr (kValues) std::memcpy(values++, word++, sizeof *values);
            }
            words_[row] = word;
        }
    }
    features -= active;
    if constexpr (kValues) values -= active;
    for (std::uint32_t bag = 0; bag < bags; ++bag) {
        for (std::uint32_t i = offsets[bag]; i != offsets[bag + 1]; ++i) {
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
