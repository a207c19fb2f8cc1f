#pragma once

#include <cstring>

#include "chess/native/batch/relations/relations.h"
#include "chess/native/batch/slot_arrays.h"

// Rows of feature sets with relations. How many relations a position has is known only when they are computed. So the
// opponents' bags wait in scratch memory until all own bags are in the slot.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

template <class Index>
inline void copy_relations(const std::uint32_t* relations, std::uint32_t count, Index* out) {
    for (std::uint32_t i = 0; i < count; ++i) out[i] = static_cast<Index>(relations[i]);
}

// Writes the features of all bags, and their offsets.
template <class Index>
inline void write_rows_with_relations(const FeatureSet& set, std::uint32_t batch_size, const Scratch& scratch,
                                      const SlotArrays& slot) {
    auto* const own = static_cast<Index*>(slot.features);
    auto* const opponent = reinterpret_cast<Index*>(scratch.opponents);
    std::uint32_t relations[2][kMaxRelations];
    std::uint32_t end = 0;  // of the last bag; the same for own and opponents' bags
    slot.offsets[0] = 0;
    for (std::uint32_t i = 0; i < batch_size; ++i) {
        const Record& record = scratch.samples[i];
        const PieceList pieces(record);
        const std::uint8_t views[2] = {scratch.views[i], scratch.views[batch_size + i]};
        const std::uint32_t num_relations = write_relations(set, record, pieces, views, relations[0], relations[1]);
        const std::uint32_t num_pieces = write_bag(set, pieces, views[0], own + end);
        write_bag(set, pieces, views[1], opponent + end);
        const std::uint32_t num_fitting = relations_that_fit(set, num_pieces, num_relations);
        copy_relations(relations[0], num_fitting, own + end + num_pieces);
        copy_relations(relations[1], num_fitting, opponent + end + num_pieces);
        end += num_pieces + num_fitting;
        slot.offsets[1 + i] = end;
    }
    std::memcpy(own + end, opponent, end * sizeof(Index));
    for (std::uint32_t i = 0; i < batch_size; ++i) slot.offsets[1 + batch_size + i] = end + slot.offsets[1 + i];
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
