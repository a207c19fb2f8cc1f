#pragma once

#include <cstdint>
#include <span>

#include "chess/formats/binpack/native/layout.h"
#include "chess/native/files/walk.h"
#include "chess/native/record.h"

// The state of decoding.
namespace sparsepool::binpack {

// The state of a walk through a payload. Plain data: the code of another instruction set may continue the walk. `entry`
// is the current entry once next_entry has returned true.
struct ChunkState {
    std::span<const std::uint8_t> payload;
    std::uint64_t payload_begin = 0;                 // bytes of the payloads before this one
    std::uint64_t bit = 0;                           // offset of the next thing to read
    std::uint64_t chain_begin = 0;                   // offset of the current chain in the payload
    std::uint32_t remaining = 0;                     // entries of the current chain that are not read yet
    std::uint32_t entry_index = 0;                   // of the current entry in its chain; the stem is 0
    std::uint32_t chains = 0;                        // begun so far
    Fault fault = Fault::kNone;                      // then `entry_index` is that of the first bad entry
    chess::Illegal illegal = chess::Illegal::kNone;  // if the fault is kIllegal
    chess::ReadOptions options;
    chess::SkippedTally* skipped = nullptr;  // owned by the walk
    chess::Entry entry;
};

inline constexpr unsigned kMaxLanes = 4;

struct Lane {
    ChunkState state;
    chess::Record* out = nullptr;  // moves on with each record written
    bool at_end = false;           // of its payload, or at a fault
};

}  // namespace sparsepool::binpack
