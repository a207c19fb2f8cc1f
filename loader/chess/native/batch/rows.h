#pragma once

#include "chess/native/batch/slot_arrays.h"
#include "chess/native/features/bags.h"

#if defined(__AVX512VBMI2__)
#include "chess/native/batch/bag_writer_avx512.h"
#endif

// The rows of a batch: bags 0 .. B - 1 are the side to move's perspective, B .. 2B - 1 the opponent's.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

// Writes where each bag ends. That is known before any bag is written, so own and opponents' bags can be written
// together.
inline void write_offsets(const FeatureSet& set, const std::uint8_t* piece_count, std::uint32_t batch_size,
                          std::uint32_t* offsets) {
    const auto features_per_piece = static_cast<std::uint32_t>(set.piece_inputs.size());
    std::uint32_t end = 0;
    offsets[0] = 0;
    for (std::uint32_t i = 0; i < batch_size; ++i) {
        end += features_per_piece * piece_count[i];
        offsets[1 + i] = end;
    }
    for (std::uint32_t i = 0; i < batch_size; ++i) offsets[1 + batch_size + i] = end + offsets[1 + i];
}

// Finds the views of all bags: the side to move's, then the opponent's.
inline void find_views(const Record* samples, std::uint32_t batch_size, std::uint8_t* views) {
    for (std::uint32_t i = 0; i < batch_size; ++i) {
        const unsigned us = samples[i].flags & kBlackToMove;
        views[i] = view_of(samples[i], us);
        views[batch_size + i] = view_of(samples[i], us ^ 1);
    }
}

// Writes the features of all bags.
template <class Index>
inline void write_rows(const FeatureSet& set, const Record* samples, std::uint32_t batch_size,
                       const std::uint8_t* views, const std::uint32_t* offsets, Index* features) {
    for (std::uint32_t i = 0; i < batch_size; ++i) {
        const PieceList pieces(samples[i]);
        write_bag(set, pieces, views[i], features + offsets[i]);
        write_bag(set, pieces, views[batch_size + i], features + offsets[batch_size + i]);
    }
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
