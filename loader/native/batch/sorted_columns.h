#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

// From rows to columns for huge numbers of features, of which a batch touches few: sorts what is there instead of
// counting all there could be, as columns.h does.
namespace sparsepool::batch {

struct ActiveFeature {
    std::uint32_t feature;
    std::uint32_t bag;
};

struct ValuedFeature {
    std::uint32_t feature;
    std::uint32_t bag;
    float value;
};

// By feature; those of one feature stay in the order in which they were. `other`: memory for as many items. Gives back
// which of the two holds the result.
template <class Item>
std::span<const Item> sort_by_feature(std::span<Item> items, std::span<Item> other, std::uint64_t num_features) {
    constexpr unsigned kDigit = 11;  // bits: the places of a pass fit in a core's first cache
    constexpr std::uint32_t kMask = (1U << kDigit) - 1;
    const auto bits = static_cast<unsigned>(std::bit_width(num_features - 1));
    for (unsigned shift = 0; shift < bits; shift += kDigit) {
        std::array<std::uint32_t, kMask + 1> places{};
        for (const Item& item : items) ++places[item.feature >> shift & kMask];
        std::uint32_t sum = 0;
        for (std::uint32_t& place : places) sum += std::exchange(place, sum);
        for (const Item& item : items) other[places[item.feature >> shift & kMask]++] = item;
        std::swap(items, other);
    }
    return items;
}

// The columns of sorted items (see loader/batch/schema.py). `column_values`: of those that have values. Gives back how
// many features were touched.
template <class Number, class Bag, class Item>
std::uint32_t write_columns(std::span<const Item> sorted, Number* touched, std::uint32_t* touched_offsets, Bag* bags,
                            float* column_values) {
    std::uint32_t count = 0;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        if (i == 0 || sorted[i].feature != sorted[i - 1].feature) {
            touched[count] = static_cast<Number>(sorted[i].feature);
            touched_offsets[count++] = static_cast<std::uint32_t>(i);
        }
        bags[i] = static_cast<Bag>(sorted[i].bag);
        if constexpr (std::is_same_v<Item, ValuedFeature>) column_values[i] = sorted[i].value;
    }
    touched_offsets[count] = static_cast<std::uint32_t>(sorted.size());
    return count;
}

}  // namespace sparsepool::batch
