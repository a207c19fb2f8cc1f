#pragma once

#include <cstddef>
#include <cstdint>

#include "chess/native/batch/layout.h"
#include "chess/native/features/feature_set.h"
#include "chess/native/record.h"

// What the hot code of a batch works on: plain pointers, so that it can be compiled for each instruction set. Its
// functions take them by value: behind a reference, a compiler must assume that every byte stored may change a pointer.
namespace sparsepool::chess {

// The arrays of a slot; layout.h has their lengths. Features and bags are uint16 or uint32.
struct SlotArrays {
    std::uint64_t* header;
    std::uint32_t* bucket_offsets;
    std::int16_t* score;
    std::int8_t* result;
    std::uint16_t* ply;
    std::uint8_t* piece_count;
    std::uint8_t* side_to_move;
    std::uint32_t* offsets;
    void* features;
    void* touched;
    std::uint32_t* touched_offsets;
    void* bags;
};

// Memory of one thread. Sizes are those of PositionBatchWriter's constructor.
struct Scratch {
    Record* samples;         // in the order of the batch
    std::uint8_t* views;     // of each bag
    std::uint32_t* counts;   // of each input; all zero between uses
    std::byte* bags;         // of the columns, until they are complete
    std::byte* opponents;    // bags of the opponents' view, if the set has relations
    std::uint32_t* threats;  // of either view, threats_capacity each (relations/rows_avx512.h)
    std::uint32_t threats_capacity;
    std::uint16_t* grouped;  // bags by king bucket
    std::uint64_t* masks;    // in which bags of a group an input is active
    std::uint64_t* item_masks;
    std::uint16_t* item_groups;
    std::uint32_t* item_ends;
    std::uint32_t* item_offsets;
};

// The records of one batch: those of `head`, then those of `body`.
struct BatchRecords {
    const Record* head;
    std::size_t head_size;
    const Record* body;
    std::size_t body_size;
    const FeatureSet* set;
    const OutputBuckets* output_buckets;
    bool has_32bit_bags;
};

}  // namespace sparsepool::chess
