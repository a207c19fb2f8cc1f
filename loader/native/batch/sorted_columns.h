#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

// From rows to columns for huge numbers of features, of which a batch touches few: sorts the active features instead of
// counting all features, as columns.h does.
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

// Sorts a batch's items by feature; items of one feature stay in the order in which they came. A radix sort, from the
// lowest digit. Call `count` for every feature, then `put` for every item, both in the order of the rows, then
// `finish`.
template <class Item>
class FeatureSort {
  public:
    // `output` and `input`: memory for all items, each.
    FeatureSort(std::uint64_t num_features, Item* output, Item* input) : output_(output), input_(input) {
        feature_bits_ = static_cast<unsigned>(std::bit_width(num_features - 1));
        const unsigned passes = (feature_bits_ + kMaxDigitBits - 1) / kMaxDigitBits;
        digit_bits_ = passes == 0 ? 0 : (feature_bits_ + passes - 1) / passes;
        mask_ = (1U << digit_bits_) - 1;
    }

    void count(std::uint32_t feature) { ++next_counts_[feature & mask_]; }

    void put(const Item& item) {
        if (size_ == 0) begin_pass();
        ++size_;
        move(item, 0);
    }

    std::span<const Item> finish() {
        for (unsigned shift = digit_bits_; shift < feature_bits_; shift += digit_bits_) {
            std::swap(output_, input_);
            begin_pass();
            for (std::size_t i = 0; i < size_; ++i) move(input_[i], shift);
        }
        return {output_, size_};
    }

  private:
    static constexpr unsigned kMaxDigitBits = 11;  // then the positions of a pass fit a core's first cache

    // Turns the counts of each digit into the positions of its first item.
    void begin_pass() {
        std::uint32_t sum = 0;
        for (std::uint32_t digit = 0; digit <= mask_; ++digit) {
            positions_[digit] = sum;
            sum += std::exchange(next_counts_[digit], 0);
        }
    }

    // Moves an item to its position by the digit at `shift`, and counts its next digit for the next pass.
    void move(const Item& item, unsigned shift) {
        output_[positions_[item.feature >> shift & mask_]++] = item;
        ++next_counts_[std::uint64_t{item.feature} >> (shift + digit_bits_) & mask_];
    }

    Item* output_;
    Item* input_;
    std::size_t size_ = 0;
    unsigned feature_bits_, digit_bits_;
    std::uint32_t mask_;
    std::array<std::uint32_t, 1U << kMaxDigitBits> positions_, next_counts_{};
};

// Writes the columns of sorted items (see loader/stream/schema.py). `column_values`: of items with values. Returns how
// many features are touched.
template <class Number, class Bag, class Item>
std::uint32_t write_columns(std::span<const Item> sorted, Number* touched, std::uint32_t* touched_offsets, Bag* bags,
                            float* column_values) {
    std::uint32_t count = 0;
    touched_offsets[0] = 0;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        touched[count] = static_cast<Number>(sorted[i].feature);
        touched_offsets[count + 1] = static_cast<std::uint32_t>(i + 1);  // overwritten until the feature's last item
        const bool is_last = i + 1 == sorted.size() || sorted[i + 1].feature != sorted[i].feature;
        count += is_last ? 1U : 0U;  // not a branch: it could not be predicted
        bags[i] = static_cast<Bag>(sorted[i].bag);
        if constexpr (std::is_same_v<Item, ValuedFeature>) column_values[i] = sorted[i].value;
    }
    return count;
}

}  // namespace sparsepool::batch
