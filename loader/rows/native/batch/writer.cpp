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

// Copies the dense numbers of all rows, column by column, and the qids.
void RowBatchWriter::write_dense(std::byte* slot) const {
    for (std::size_t i = 0; i < shape_.dense.size(); ++i) {
        auto* numbers = batch::array_in<std::uint32_t>(slot, layout_.dense[i]);  // bits of float32
        for (std::size_t row = 0; row < rows_.size(); ++row) numbers[row] = rows_[row][i];
    }
    if (!shape_.qid) return;
    auto* qids = batch::array_in<std::byte>(slot, layout_.qid);
    for (std::size_t row = 0; row < rows_.size(); ++row) std::memcpy(qids + 8 * row, rows_[row] + shape_.qid_at(), 8);
}

// Writes the offsets of all bags, then the arrays by the types of their numbers.
std::uint32_t RowBatchWriter::write_table(std::size_t index, std::byte* slot, std::uint32_t& active) {
    const Table& table = shape_.tables[index];
    const TableLayout& arrays = layout_.tables[index];
    auto* offsets = batch::array_in<std::uint32_t>(slot, arrays.offsets);
    active = 0;
    for (std::size_t field = table.begin; field < table.end; ++field) {
        for (const std::uint32_t* row : rows_) {
            *offsets++ = active;
            active += row[shape_.counts_at() + field];
        }
    }
    *offsets = active;
    // Features and bags are 16 or 32 bits wide each.
    const auto write = [&](auto number, auto bag) {
        using Number = decltype(number);
        using Bag = decltype(bag);
        const bool has_values = shape_.fields[table.begin].values;
        return has_values ? write_arrays<Number, Bag>(index, slot, valued_)
                          : write_arrays<Number, Bag>(index, slot, active_);
    };
    const auto write_with_bags = [&](auto number) {
        const bool has_wide_bags = arrays.bags.item_size == 4;
        return has_wide_bags ? write(number, std::uint32_t{}) : write(number, std::uint16_t{});
    };
    const bool has_wide_features = arrays.features.item_size == 4;
    return has_wide_features ? write_with_bags(std::uint32_t{}) : write_with_bags(std::uint16_t{});
}

// Copies the features of all rows, and their values, bag after bag, and counts them for the sort.
template <class Number, class Item>
void RowBatchWriter::copy_features(const Table& table, Number* features, [[maybe_unused]] float* values,
                                   batch::FeatureSort<Item>& sort) {
    for (std::size_t field = table.begin; field < table.end; ++field) {
        for (std::size_t row = 0; row < rows_.size(); ++row) {
            const std::uint32_t count = rows_[row][shape_.counts_at() + field];
            const std::uint32_t* word = words_[row];
            for (std::uint32_t i = 0; i < count; ++i) {
                sort.count(*word);
                *features++ = static_cast<Number>(*word++);
                if constexpr (std::is_same_v<Item, batch::ValuedFeature>) {
                    std::memcpy(values++, word++, sizeof *values);
                }
            }
            words_[row] = word;
        }
    }
}

template <class Number, class Bag, class Item>
std::uint32_t RowBatchWriter::write_arrays(std::size_t index, std::byte* slot, GrowingMemory<Item> (&memory)[2]) {
    constexpr bool kValues = std::is_same_v<Item, batch::ValuedFeature>;
    const TableLayout& arrays = layout_.tables[index];
    const Table& table = shape_.tables[index];
    const std::size_t bags = (table.end - table.begin) * rows_.size();
    const auto* offsets = batch::array_in<std::uint32_t>(slot, arrays.offsets);
    const std::uint32_t active = offsets[bags];
    auto* features = batch::array_in<Number>(slot, arrays.features);
    float* values = kValues ? batch::array_in<float>(slot, arrays.values) : nullptr;
    for (GrowingMemory<Item>& buffer : memory) buffer.resize_to_overwrite(active);
    batch::FeatureSort<Item> sort(shape_.fields[table.begin].size(), memory[0].data(), memory[1].data());
    copy_features<Number, Item>(table, features, values, sort);
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
        sorted, batch::array_in<Number>(slot, arrays.touched),
        batch::array_in<std::uint32_t>(slot, arrays.touched_offsets), batch::array_in<Bag>(slot, arrays.bags),
        kValues ? batch::array_in<float>(slot, arrays.column_values) : nullptr);
}

}  // namespace sparsepool::rows
