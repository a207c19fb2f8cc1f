#pragma once

#include <cstring>

#include "chess/native/batch/layout.h"
#include "chess/native/batch/slot_arrays.h"
#include "chess/native/board/bitboard.h"

// A batch's samples in order of output bucket, and what is stored once per sample.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

// Records without pieces can't come from a file; here they count as having one.
[[nodiscard]] inline std::uint32_t sample_bucket(const Record& record) {
    const std::uint32_t count = count_squares(record.occupied);
    return bucket_of(count == 0 ? 1 : count) & (kNumBuckets - 1);
}

// A stable counting sort, so that the batch is a function of the records alone (I1).
inline void order_by_bucket(const BatchParts& parts, Scratch scratch, SlotArrays slot) {
    std::uint32_t next[kNumBuckets + 1] = {};
    for (std::size_t i = 0; i < parts.head_size; ++i) ++next[sample_bucket(parts.head[i]) + 1];
    for (std::size_t i = 0; i < parts.body_size; ++i) ++next[sample_bucket(parts.body[i]) + 1];
    for (std::uint32_t bucket = 0; bucket < kNumBuckets; ++bucket) next[bucket + 1] += next[bucket];
    std::memcpy(slot.bucket_offsets, next, sizeof next);
    for (std::size_t i = 0; i < parts.head_size; ++i) {
        scratch.samples[next[sample_bucket(parts.head[i])]++] = parts.head[i];
    }
    for (std::size_t i = 0; i < parts.body_size; ++i) {
        scratch.samples[next[sample_bucket(parts.body[i])]++] = parts.body[i];
    }
}

inline void write_dense(const Record* samples, std::uint32_t batch_size, SlotArrays slot) {
    for (std::uint32_t i = 0; i < batch_size; ++i) {
        const Record& record = samples[i];
        slot.score[i] = record.score;
        slot.result[i] = record.result;
        slot.ply[i] = record.ply;
        slot.piece_count[i] = static_cast<std::uint8_t>(count_squares(record.occupied));
        slot.side_to_move[i] = record.flags & kBlackToMove;
    }
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
