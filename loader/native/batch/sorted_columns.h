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

// Sorts a batch's items by feature; those of one feature stay in the order in which they came. By digits, from the
// lowest: `count` every feature, then `put` every item, both in the order of the rows, then `finish`.
template <class Item>
class FeatureSort {
  public:
    // `memory`: two halves for as many items as will come.
    FeatureSort(std::uint64_t num_features, Item* memory, Item* other) : items_(memory), other_(other) {
        bits_ = static_cast<unsigned>(std::bit_width(num_features - 1));
        const unsigned passes = (bits_ + kMostDigit - 1) / kMostDigit;
        digit_ = passes == 0 ? 0 : (bits_ + passes - 1) / passes;
        mask_ = (1U << digit_) - 1;
    }

    void count(std::uint32_t feature) { ++next_[feature & mask_]; }

    void put(const Item& item) {
        if (size_++ == 0) begin_pass();
        place(item, 0);
    }

    std::span<const Item> finish() {
        for (unsigned shift = digit_; shift < bits_; shift += digit_) {
            std::swap(items_, other_);
            begin_pass();
            for (std::size_t i = 0; i < size_; ++i) place(other_[i], shift);
        }
        return {items_, size_};
    }

  private:
    static constexpr unsigned kMostDigit = 11;  // bits: the places of a pass fit in a core's first cache

    void begin_pass() {
        std::uint32_t sum = 0;
        for (std::uint32_t digit = 0; digit <= mask_; ++digit) {
            places_[digit] = sum;
            sum += std::exchange(next_[digit], 0);
        }
    }

    // Counts for the next pass what is in hand.
    void place(const Item& item, unsigned shift) {
        items_[places_[item.feature >> shift & mask_]++] = item;
        ++next_[std::uint64_t{item.feature} >> (shift + digit_) & mask_];
    }

    Item* items_;
    Item* other_;
    std::size_t size_ = 0;
    unsigned bits_, digit_;
    std::uint32_t mask_;
    std::array<std::uint32_t, 1U << kMostDigit> places_, next_{};
};

// The columns of sorted items (see loader/stream/schema.py). `column_values`: of those that have values. Gives back how
// many features were touched.
template <class Number, class Bag, class Item>
std::uint32_t write_columns(std::span<const Item> sorted, Number* touched, std::uint32_t* touched_offsets, Bag* bags,
                            float* column_values) {
    std::uint32_t count = 0;
    touched_offsets[0] = 0;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        touched[count] = static_cast<Number>(sorted[i].feature);
        touched_offsets[count + 1] = static_cast<std::uint32_t>(i + 1);  // what comes last of the feature stays
        const bool last = i + 1 == sorted.size() || sorted[i + 1].feature != sorted[i].feature;
        count += last ? 1U : 0U;  // no branch: nobody can foresee it
        bags[i] = static_cast<Bag>(sorted[i].bag);
        if constexpr (std::is_same_v<Item, ValuedFeature>) column_values[i] = sorted[i].value;
    }
    return count;
}

}  // namespace sparsepool::batch
