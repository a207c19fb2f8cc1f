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

// A counting sort: bags are visited in order, so they end up ascending. `counts` has a zero per feature, before and
// after. The lists are filled here and there, feature by feature, so that is done in `lists`, memory that stays in
// this core's cache; the slot gets them in one sweep. On slots out of cache that halves the time. `values`, if not
// null, go along. Gives back how many features were touched.
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
        counts[feature] = sum;  // from here on: where its next bag goes
        sum += count;
    }
    columns.touched_offsets[touched] = sum;
    for (std::uint32_t bag = 0; bag < num_bags; ++bag) {
        for (std::uint32_t i = offsets[bag]; i < offsets[bag + 1]; ++i) {
            const std::uint32_t place = counts[features[i]]++;
            lists[place] = static_cast<Bag>(bag);
            if (values != nullptr) values->columns[place] = values->rows[i];
        }
    }
    for (std::uint32_t i = 0; i < touched; ++i) counts[columns.touched[i]] = 0;
    std::memcpy(columns.bags, lists, active * sizeof(Bag));
    return touched;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::batch
