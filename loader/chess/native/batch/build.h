#pragma once

#include "batch/columns.h"
#include "chess/native/batch/relations/rows.h"
#include "chess/native/batch/rows.h"
#include "chess/native/batch/samples.h"

#if defined(__AVX512VBMI2__)
#include "chess/native/batch/bit_columns_avx512.h"
#include "chess/native/batch/relations/pawn_pair_columns_avx512.h"
#include "chess/native/batch/relations/threat_columns_avx512.h"
#endif

// One batch, from records to a slot: what is compiled for each instruction set.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

template <class Index, class Bag>
[[nodiscard]] inline batch::Columns<Index, Bag> columns_of_slot(const SlotArrays& slot) {
    return {static_cast<Index*>(slot.touched), slot.touched_offsets, static_cast<Bag*>(slot.bags)};
}

// Writes the columns of the rows in the slot, and returns the number of touched features.
template <class Index, class Bag>
inline std::uint32_t write_columns(const FeatureSet& set, std::uint32_t num_bags, const Scratch& scratch,
                                   const SlotArrays& slot) {
    const auto columns = columns_of_slot<Index, Bag>(slot);
#if defined(__AVX512VBMI2__)
    if constexpr (sizeof(Bag) == 2) {
        const PieceInputs* inputs = set.piece_inputs.data();
        const PieceInputs* const end = inputs + set.piece_inputs.size();
        if (!set.has_relations()) {
            return append_bit_columns(set, inputs, end, num_bags, slot.offsets[num_bags], scratch, columns, 0, 0);
        }
    }
#endif
    return batch::count_columns(slot.offsets, num_bags, static_cast<const Index*>(slot.features), set.num_inputs,
                                scratch.counts, reinterpret_cast<Bag*>(scratch.bags), columns);
}

#if defined(__AVX512VBMI2__)
// Writes rows and columns of a set with threats. Returns false if the batch needs the code for any set
// (relations/rows_avx512.h).
inline bool write_threat_batch(const BatchRecords& batch, std::uint32_t batch_size, const Scratch& scratch,
                               const SlotArrays& slot) {
    const FeatureSet& set = *batch.set;
    if (set.threats == nullptr || !set.has_32bit_indices() || batch.has_32bit_bags) return false;
    ThreatItems threats(scratch);
    if (!write_rows_and_items(set, batch_size, scratch, slot, threats)) return false;
    const std::uint32_t num_bags = 2 * batch_size;
    const std::uint32_t num_active = slot.offsets[num_bags];
    const auto columns = columns_of_slot<std::uint32_t, std::uint16_t>(slot);
    const PieceInputs* const begin = set.piece_inputs.data();
    const PieceInputs* const end = begin + set.piece_inputs.size();
    const PieceInputs* first_virtual = begin;  // virtual inputs come behind the relations
    while (first_virtual != end && first_virtual->first < set.first_relation) ++first_virtual;
    std::uint32_t touched = append_bit_columns(set, begin, first_virtual, num_bags, num_active, scratch, columns, 0, 0);
    touched = append_threat_columns(set, batch_size, threats, scratch, columns, touched, slot.touched_offsets[touched]);
    if (set.pawn_pairs) {
        const std::uint32_t first_pair = set.first_relation + set.threats->num_inputs;
        touched = append_pawn_pair_columns(first_pair, batch_size, scratch, columns, touched,
                                           slot.touched_offsets[touched], num_active);
    }
    touched = append_bit_columns(set, first_virtual, end, num_bags, num_active, scratch, columns, touched,
                                 slot.touched_offsets[touched]);
    slot.header[1] = num_active;
    slot.header[2] = touched;
    return true;
}
#endif

// Writes rows and columns, and their sizes into the header.
template <class Index>
inline void write_sparse(const BatchRecords& batch, std::uint32_t batch_size, const Scratch& scratch,
                         const SlotArrays& slot) {
    const FeatureSet& set = *batch.set;
#if defined(__AVX512VBMI2__)
    if (write_threat_batch(batch, batch_size, scratch, slot)) return;
#endif
    if (set.has_relations()) {
        write_rows_with_relations<Index>(set, batch_size, scratch, slot);
    } else {
        write_offsets(set, slot.piece_count, batch_size, slot.offsets);
        write_rows(set, scratch.samples, batch_size, scratch.views, slot.offsets, static_cast<Index*>(slot.features));
    }
    const std::uint32_t num_bags = 2 * batch_size;
    slot.header[1] = slot.offsets[num_bags];
    slot.header[2] = batch.has_32bit_bags ? write_columns<Index, std::uint32_t>(set, num_bags, scratch, slot)
                                          : write_columns<Index, std::uint16_t>(set, num_bags, scratch, slot);
}

// Writes all of a batch but its number.
inline void build_batch(const BatchRecords& batch, const Scratch& scratch, const SlotArrays& slot) {
    const auto batch_size = static_cast<std::uint32_t>(batch.head_size + batch.body_size);
    order_by_bucket(batch, scratch, slot);
    write_dense(scratch.samples, batch_size, slot);
    find_views(scratch.samples, batch_size, scratch.views);
    if (batch.set->has_32bit_indices()) {
        write_sparse<std::uint32_t>(batch, batch_size, scratch, slot);
    } else {
        write_sparse<std::uint16_t>(batch, batch_size, scratch, slot);
    }
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
