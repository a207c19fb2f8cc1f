#pragma once

#include "chess/formats/binpack/native/entries/chain.h"
#include "chess/native/make_record.h"

// Several payloads decoded in turn by one thread. Decoding an entry is a chain of steps that wait for one another
// (where its bits begin is known when the entry before it is read), and other payloads can be read meanwhile. On two
// busy cores four in turn were no faster than one; it pays where a core has instructions to spare.
namespace sparsepool::binpack {

inline namespace SPARSEPOOL_ISA {

// Decodes `count` entries of each lane; fewer if one of them comes to its end: all are one entry apart then at most.
template <unsigned kLanes, bool kChecks>
inline void read_together(Lane* const (&lanes)[kLanes], std::size_t count) {
    ChunkState states[kLanes];
    chess::Record* out[kLanes];
    for (unsigned i = 0; i < kLanes; ++i) {
        states[i] = lanes[i]->state;
        out[i] = lanes[i]->out;
    }
    Next next[kLanes] = {};
    bool going = true;
    for (; count != 0 && going; --count) {
        Reading readings[kLanes];
#pragma GCC unroll 4
        for (unsigned i = 0; i < kLanes; ++i) next[i] = begin_entry(states[i]);
#pragma GCC unroll 4
        for (unsigned i = 0; i < kLanes; ++i) {
            if (next[i] == Next::kToRead) [[likely]]
                next[i] = find_piece(states[i], readings[i]);
        }
#pragma GCC unroll 4
        for (unsigned i = 0; i < kLanes; ++i) {
            if (next[i] == Next::kToRead) [[likely]]
                next[i] = finish_entry(states[i], readings[i]);
        }
#pragma GCC unroll 4
        for (unsigned i = 0; i < kLanes; ++i) {
            if (next[i] == Next::kWhole) [[likely]] {
                chess::write_record<kChecks>(states[i].entry, *out[i]++);
            } else {
                going = false;
            }
        }
    }
    for (unsigned i = 0; i < kLanes; ++i) {
        lanes[i]->state = states[i];
        lanes[i]->out = out[i];
        lanes[i]->at_end = next[i] == Next::kNone;
    }
}

template <bool kChecks>
inline void read_up_to_four(Lane* const* lanes, std::size_t num_lanes, std::size_t count) {
    switch (num_lanes) {
        case 1: return read_together<1, kChecks>({lanes[0]}, count);
        case 2: return read_together<2, kChecks>({lanes[0], lanes[1]}, count);
        case 3: return read_together<3, kChecks>({lanes[0], lanes[1], lanes[2]}, count);
        default: return read_together<4, kChecks>({lanes[0], lanes[1], lanes[2], lanes[3]}, count);
    }
}

// The same for up to kMaxLanes lanes, with or without RecordFlags::kInCheck.
inline void read_lanes(Lane* const* lanes, std::size_t num_lanes, std::size_t count, bool checks) {
    return checks ? read_up_to_four<true>(lanes, num_lanes, count) : read_up_to_four<false>(lanes, num_lanes, count);
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::binpack
