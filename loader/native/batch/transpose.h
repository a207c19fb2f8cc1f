#pragma once

#include <cstdint>
#include <vector>

// From rows (which features are active in each bag) to columns (in which bags each feature is active).
namespace sparsepool::batch {

template <class Number, class Bag>
struct Columns {
    Number* touched;                 // ascending
    std::uint32_t* touched_offsets;  // one more than touched
    Bag* bags;                       // ascending within a feature
};

// A counting sort: bags are visited in order, so they end up ascending. `counts` is scratch, one zero per
// feature, and zero again afterwards. Gives back how many features were touched.
template <class Number, class Bag>
std::uint32_t transpose(const std::uint32_t* offsets, std::uint32_t num_bags, const Number* features,
                        std::vector<std::uint32_t>& counts, Columns<Number, Bag> columns) {
    const std::uint32_t active = offsets[num_bags];
    for (std::uint32_t i = 0; i < active; ++i) ++counts[features[i]];
    std::uint32_t touched = 0;
    std::uint32_t sum = 0;
    for (std::size_t feature = 0; feature < counts.size(); ++feature) {
        const std::uint32_t count = counts[feature];
        if (count == 0) continue;
        columns.touched[touched] = static_cast<Number>(feature);
        columns.touched_offsets[touched] = sum;
        ++touched;
        counts[feature] = sum;  // from here on: where its next bag goes
        sum += count;
    }
    columns.touched_offsets[touched] = sum;
    for (std::uint32_t bag = 0; bag < num_bags; ++bag) {
        for (std::uint32_t i = offsets[bag]; i < offsets[bag + 1]; ++i) {
            columns.bags[counts[features[i]]++] = static_cast<Bag>(bag);
        }
    }
    for (std::uint32_t i = 0; i < touched; ++i) counts[columns.touched[i]] = 0;
    return touched;
}

}  // namespace sparsepool::batch
