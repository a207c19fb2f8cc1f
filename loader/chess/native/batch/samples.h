#pragma once

#include <cstring>

#include "chess/native/batch/layout.h"
#include "chess/native/batch/slot_arrays.h"
#include "chess/native/board/bitboard.h"

// A batch's samples in order of output bucket, and what is stored once per sample.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

// Copies the records into scratch.samples by output bucket, and writes the buckets' offsets. A stable counting sort, so
// that the batch is a function of the records alone (I1).
inline void order_by_bucket(const BatchRecords& batch, Scratch scratch, SlotArrays slot) {
    const OutputBuckets& buckets = *batch.output_buckets;
    const auto bucket_of = [&](const Record& record) { return buckets.of(count_squares(record.occupied)); };
    std::uint32_t next[kMaxPieces + 2] =
        {};  // first counts of bucket b in next[b + 1], then the next offset of b in next[b]
    for (std::size_t i = 0; i < batch.head_size; ++i) ++next[bucket_of(batch.head[i]) + 1];
    for (std::size_t i = 0; i < batch.body_size; ++i) ++next[bucket_of(batch.body[i]) + 1];
    for (std::uint32_t bucket = 0; bucket < buckets.count; ++bucket) next[bucket + 1] += next[bucket];
    std::memcpy(slot.bucket_offsets, next, (buckets.count + 1) * sizeof *next);
    for (std::size_t i = 0; i < batch.head_size; ++i) {
        scratch.samples[next[bucket_of(batch.head[i])]++] = batch.head[i];
    }
    for (std::size_t i = 0; i < batch.body_size; ++i) {
        scratch.samples[next[bucket_of(batch.body[i])]++] = batch.body[i];
    }
}

// Writes the arrays that have one value for each sample.
inline void write_dense(const Record* samples, std::uint32_t batch_size, SlotArrays slot) {
    for (std::uint32_t i = 0; i < batch_size; ++i) {
        const Record& record = samples[i];
        slot.score[i] = record.score;
        slot.result[i] = record.result();
        slot.ply[i] = record.ply;
        slot.piece_count[i] = static_cast<std::uint8_t>(count_squares(record.occupied));
        slot.side_to_move[i] = static_cast<std::uint8_t>(record.flags & kBlackToMove);
    }
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
