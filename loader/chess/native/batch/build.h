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

template <class Number, class Bag>
[[nodiscard]] inline batch::Columns<Number, Bag> columns_in(const SlotArrays& slot) {
    return {static_cast<Number*>(slot.touched), slot.touched_offsets, static_cast<Bag*>(slot.bags)};
}

template <class Number, class Bag>
inline std::uint32_t write_columns(const FeatureSet& set, std::uint32_t num_bags, const Scratch& scratch,
                                   const SlotArrays& slot) {
    const auto columns = columns_in<Number, Bag>(slot);
#if defined(__AVX512VBMI2__)
    if constexpr (sizeof(Bag) == 2) {
        const Part* parts = set.parts.data();
        if (!set.has_relations()) {
            return bit_columns(set, parts, parts + set.parts.size(), num_bags, slot.offsets[num_bags], scratch, columns,
                               0, 0);
        }
    }
#endif
    return batch::count_columns(slot.offsets, num_bags, static_cast<const Number*>(slot.features), set.num_inputs,
                                scratch.counts, reinterpret_cast<Bag*>(scratch.bags), columns);
}

#if defined(__AVX512VBMI2__)
// Rows and columns of a set with threats. False if this can't make them (relations/rows_avx512.h).
inline bool write_threat_batch(const BatchParts& parts, std::uint32_t batch_size, const Scratch& scratch,
                               const SlotArrays& slot) {
    const FeatureSet& set = *parts.set;
    if (set.threats == nullptr || !set.wide() || parts.wide_bags) return false;
    ThreatItems threats(scratch);
    if (!write_rows_and_items(set, batch_size, scratch, slot, threats)) return false;
    const std::uint32_t active = slot.offsets[2 * batch_size];
    const auto columns = columns_in<std::uint32_t, std::uint16_t>(slot);
    const Part* part = set.parts.data();
    const Part* const end = part + set.parts.size();
    const Part* first_virtual_input = part;  // behind the relations
    while (first_virtual_input != end && first_virtual_input->first < set.first_relation) ++first_virtual_input;
    std::uint32_t touched = bit_columns(set, part, first_virtual_input, 2 * batch_size, active, scratch, columns, 0, 0);
    touched = threat_columns(set, batch_size, threats, scratch, columns, touched, slot.touched_offsets[touched]);
    if (set.pawn_pairs) {
        touched = pawn_pair_columns(set.first_relation + set.threats->num_inputs, batch_size, scratch, columns, touched,
                                    slot.touched_offsets[touched], active);
    }
    touched = bit_columns(set, first_virtual_input, end, 2 * batch_size, active, scratch, columns, touched,
                          slot.touched_offsets[touched]);
    slot.header[1] = active;
    slot.header[2] = touched;
    return true;
}
#endif

template <class Number>
inline void write_sparse(const BatchParts& parts, std::uint32_t batch_size, const Scratch& scratch,
                         const SlotArrays& slot) {
    const FeatureSet& set = *parts.set;
#if defined(__AVX512VBMI2__)
    if (write_threat_batch(parts, batch_size, scratch, slot)) return;
#endif
    if (set.has_relations()) {
        write_rows_with_relations<Number>(set, batch_size, scratch, slot);
    } else {
        write_offsets(set, slot.piece_count, batch_size, slot.offsets);
        write_rows(set, scratch.samples, batch_size, scratch.views, slot.offsets, static_cast<Number*>(slot.features));
    }
    slot.header[1] = slot.offsets[2 * batch_size];
    slot.header[2] = parts.wide_bags ? write_columns<Number, std::uint32_t>(set, 2 * batch_size, scratch, slot)
                                     : write_columns<Number, std::uint16_t>(set, 2 * batch_size, scratch, slot);
}

// Writes all of the batch but its number.
inline void build_batch(const BatchParts& parts, const Scratch& scratch, const SlotArrays& slot) {
    const auto batch_size = static_cast<std::uint32_t>(parts.head_size + parts.body_size);
    order_by_bucket(parts, scratch, slot);
    write_dense(scratch.samples, batch_size, slot);
    find_views(scratch.samples, batch_size, scratch.views);
    parts.set->wide() ? write_sparse<std::uint32_t>(parts, batch_size, scratch, slot)
                      : write_sparse<std::uint16_t>(parts, batch_size, scratch, slot);
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
