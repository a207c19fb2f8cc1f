#pragma once

#include <cstdint>
#include <span>

#include "chess/formats/binpack/native/layout.h"
#include "chess/native/files/walk.h"
#include "chess/native/record.h"

// Where decoding stands, as plain data.
namespace sparsepool::binpack {

// Where a walk stands, in a payload. Plain data: a walk may be continued by the code of another
// instruction set. `entry` is the current entry once `next_entry` has said true.
struct ChunkState {
    std::span<const std::uint8_t> payload;
    std::uint64_t before = 0;                        // bytes of the payloads that were walked through before it
    std::uint64_t bit = 0;                           // where the next thing to read begins
    std::uint64_t stem = 0;                          // offset of the current chain in the payload
    std::uint32_t followers = 0;                     // entries of the current chain still to come
    std::uint32_t entry_index = 0;                   // of the current entry within its chain; the stem is 0
    std::uint32_t chains = 0;                        // begun so far
    Fault fault = Fault::kNone;                      // then `entry_index` is that of the first entry not delivered
    chess::Illegal illegal = chess::Illegal::kNone;  // if that is the fault
    chess::ReadOptions options;
    chess::SkippedTally* skipped = nullptr;  // of whoever walks
    chess::Entry entry;
};

inline constexpr unsigned kMaxLanes = 4;

struct Lane {
    ChunkState state;
    chess::Record* out = nullptr;  // moves on with each record written
    bool at_end = false;           // of its payload, or at a fault
};

}  // namespace sparsepool::binpack
