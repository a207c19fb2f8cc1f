#pragma once

#include <cstring>

#include "chess/native/batch/relations/relations.h"
#include "chess/native/batch/slot_arrays.h"

// Rows and columns of feature sets with relations. How many a position has is known when they are made, so the
// opponents' bags wait in scratch memory until all others are in the slot.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

template <class Number>
inline Number* append_relations(const std::uint32_t* relations, std::uint32_t count, Number* out) {
    for (std::uint32_t i = 0; i < count; ++i) out[i] = static_cast<Number>(relations[i]);
    return out + count;
}

// Offsets and rows.
template <class Number>
inline void write_rows_with_relations(const FeatureSet& set, std::uint32_t batch_size, const Scratch& scratch,
                                      const SlotArrays& slot) {
    auto* const own = static_cast<Number*>(slot.features);
    auto* const opponent = reinterpret_cast<Number*>(scratch.opponents);
    std::uint32_t relations[2][kMostRelations];
    std::uint32_t end = 0;
    slot.offsets[0] = 0;
    for (std::uint32_t i = 0; i < batch_size; ++i) {
        const Pieces pieces(scratch.samples[i]);
        const std::uint8_t views[2] = {scratch.views[i], scratch.views[batch_size + i]};
        const std::uint32_t found = write_relations(set, scratch.samples[i], pieces, views, relations[0], relations[1]);
        const std::uint32_t count = write_bag(set, pieces, views[0], own + end);
        write_bag(set, pieces, views[1], opponent + end);
        const std::uint32_t fit = relations_that_fit(set, count, found);
        append_relations(relations[0], fit, own + end + count);
        append_relations(relations[1], fit, opponent + end + count);
        end += count + fit;
        slot.offsets[1 + i] = end;
    }
    std::memcpy(own + end, opponent, end * sizeof(Number));
    for (std::uint32_t i = 0; i < batch_size; ++i) slot.offsets[1 + batch_size + i] = end + slot.offsets[1 + i];
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
