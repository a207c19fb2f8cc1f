#pragma once

#include <cstdint>
#include <cstring>

#include "common/isa.h"

// From rows (which features are active in each bag) to columns (in which bags each feature is active), for any
// feature set and any number type.
namespace sparsepool::batch {

inline namespace SPARSEPOOL_ISA {

template <class Number, class Bag>
struct Columns {
    Number* touched;                 // ascending
    std::uint32_t* touched_offsets;  // one more than touched
    Bag* bags;                       // ascending within a feature
};

// Values of the active features, in both orders.
struct ColumnValues {
    const float* rows;  // beside the features
    float* columns;     // beside the bags
};

// Writes the columns of a batch and returns how many features are touched. A counting sort: bags are visited in order,
// so they ascend within each feature.
//
// `counts` has a zero for each feature, before and after the call. The lists of bags are filled in random order, so
// this is done in `lists`, memory that stays in this core's cache, and copied to the slot afterwards: on slots outside
// the caches that halves the time. `values`, if not null, are sorted along with the bags.
template <class Number, class Bag>
inline std::uint32_t count_columns(const std::uint32_t* offsets, std::uint32_t num_bags, const Number* features,
                                   std::uint32_t num_inputs, std::uint32_t* counts, Bag* lists,
                                   Columns<Number, Bag> columns, const ColumnValues* values = nullptr) {
    const std::uint32_t active = offsets[num_bags];
    for (std::uint32_t i = 0; i < active; ++i) ++counts[features[i]];
    std::uint32_t touched = 0;
    std::uint32_t sum = 0;
    for (std::uint32_t feature = 0; feature < num_inputs; ++feature) {
        const std::uint32_t count = counts[feature];
        if (count == 0) continue;
        columns.touched[touched] = static_cast<Number>(feature);
        columns.touched_offsets[touched] = sum;
        ++touched;
        counts[feature] = sum;  // from now on: where the feature's next bag goes
        sum += count;
    }
    columns.touched_offsets[touched] = sum;
    for (std::uint32_t bag = 0; bag < num_bags; ++bag) {
        for (std::uint32_t i = offsets[bag]; i < offsets[bag + 1]; ++i) {
            const std::uint32_t position = counts[features[i]]++;
            lists[position] = static_cast<Bag>(bag);
            if (values != nullptr) values->columns[position] = values->rows[i];
        }
    }
    for (std::uint32_t i = 0; i < touched; ++i) counts[columns.touched[i]] = 0;
    std::memcpy(columns.bags, lists, active * sizeof(Bag));
    return touched;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::batch
