#pragma once

#include "batch/columns.h"
#include "chess/native/batch/slot_arrays.h"

// Columns of relations. A counting sort over all of them would miss the nearest cache with each number, so they are
// dealt out first, by their high bits, to stretches whose counters stay in it.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

inline constexpr std::uint32_t kStretchBits = 12;  // inputs of a stretch: 16 KiB of counters
inline constexpr std::uint32_t kMostStretches = 64;

// Calls `take(number, bag)` for each relation; they stand behind the pieces of their bags, bags ascending.
template <class Number, class Take>
inline void each_relation(const FeatureSet& set, std::uint32_t batch_size, const SlotArrays& slot, Take take) {
    const auto* numbers = static_cast<const Number*>(slot.features);
    const auto per_piece = static_cast<std::uint32_t>(set.parts.size());
    for (std::uint32_t bag = 0; bag < 2 * batch_size; ++bag) {
        const std::uint32_t sample = bag < batch_size ? bag : bag - batch_size;
        const std::uint32_t end = slot.offsets[bag + 1];
        for (std::uint32_t i = slot.offsets[bag] + per_piece * slot.piece_count[sample]; i < end; ++i) {
            take(numbers[i], bag);
        }
    }
}

// Appends the columns of the relations to those of the pieces: `touched` features, which end at `place`. Gives back how
// many features there are now.
template <class Number>
inline std::uint32_t relation_columns(const FeatureSet& set, std::uint32_t batch_size, const Scratch& scratch,
                                      const SlotArrays& slot, batch::Columns<Number, std::uint16_t> columns,
                                      std::uint32_t touched, std::uint32_t place) {
    constexpr std::uint32_t kLow = (1U << kStretchBits) - 1;
    const std::uint32_t first = set.first_relation;
    std::uint32_t begins[kMostStretches + 1] = {};
    each_relation<Number>(set, batch_size, slot, [&](std::uint32_t number, std::uint32_t) {
        ++begins[((number - first) >> kStretchBits) + 1];
    });
    std::uint32_t next[kMostStretches];
    for (std::uint32_t stretch = 0; stretch < kMostStretches; ++stretch) {
        begins[stretch + 1] += begins[stretch];
        next[stretch] = begins[stretch];
    }
    each_relation<Number>(set, batch_size, slot, [&](std::uint32_t number, std::uint32_t bag) {
        const std::uint32_t relation = number - first;
        scratch.dealt[next[relation >> kStretchBits]++] = (relation & kLow) << 16 | bag;
    });
    for (std::uint32_t stretch = 0; stretch < kMostStretches; ++stretch) {
        const std::uint32_t* dealt = scratch.dealt + begins[stretch];
        const std::uint32_t count = begins[stretch + 1] - begins[stretch];
        if (count == 0) continue;
        std::uint32_t places[kLow + 1] = {};
        for (std::uint32_t i = 0; i < count; ++i) ++places[dealt[i] >> 16];
        for (std::uint32_t low = 0; low <= kLow; ++low) {
            const std::uint32_t bags = places[low];
            if (bags == 0) continue;
            columns.touched[touched] = static_cast<Number>(first + (stretch << kStretchBits) + low);
            columns.touched_offsets[touched] = place;
            ++touched;
            places[low] = place;
            place += bags;
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            columns.bags[places[dealt[i] >> 16]++] = static_cast<std::uint16_t>(dealt[i]);
        }
    }
    columns.touched_offsets[touched] = place;
    return touched;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
