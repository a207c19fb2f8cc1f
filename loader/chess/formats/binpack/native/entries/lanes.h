#pragma once

#include "chess/formats/binpack/native/entries/chain.h"
#include "chess/native/make_record.h"

// Several payloads (lanes) decoded in turn by one thread. The steps of decoding an entry wait for one another, and the
// next entry begins where this one ends. Meanwhile the entries of other lanes can be decoded. With two busy cores four
// lanes were no faster than one; it pays where a core has instructions to spare.
namespace sparsepool::binpack {

inline namespace SPARSEPOOL_ISA {

// Decodes `count` entries of each lane, phase by phase, or fewer if one of the lanes ends. Then their numbers of
// entries differ by one at most.
template <unsigned kLanes, bool kChecks>
inline void read_together(Lane* const (&lanes)[kLanes], std::size_t count) {
    ChunkState states[kLanes];
    chess::Record* out[kLanes];
    for (unsigned i = 0; i < kLanes; ++i) {
        states[i] = lanes[i]->state;
        out[i] = lanes[i]->out;
    }
    EntryStatus status[kLanes] = {};
    bool continues = true;
    for (; count != 0 && continues; --count) {
        MoveReader readers[kLanes];
#pragma GCC unroll 4
        for (unsigned i = 0; i < kLanes; ++i) status[i] = start_entry(states[i]);
#pragma GCC unroll 4
        for (unsigned i = 0; i < kLanes; ++i) {
            if (status[i] == EntryStatus::kNeedsMove) [[likely]]
                status[i] = read_piece(states[i], readers[i]);
        }
#pragma GCC unroll 4
        for (unsigned i = 0; i < kLanes; ++i) {
            if (status[i] == EntryStatus::kNeedsMove) [[likely]]
                status[i] = read_move_and_score(states[i], readers[i]);
        }
#pragma GCC unroll 4
        for (unsigned i = 0; i < kLanes; ++i) {
            if (status[i] == EntryStatus::kComplete) [[likely]] {
                chess::write_record<kChecks>(states[i].entry, *out[i]++);
            } else {
                continues = false;
            }
        }
    }
    for (unsigned i = 0; i < kLanes; ++i) {
        lanes[i]->state = states[i];
        lanes[i]->out = out[i];
        lanes[i]->at_end = status[i] == EntryStatus::kEnd;
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

// Decodes `count` entries of each of up to kMaxLanes lanes. Without `checks` RecordFlags::kInCheck is not set.
inline void read_lanes(Lane* const* lanes, std::size_t num_lanes, std::size_t count, bool checks) {
    return checks ? read_up_to_four<true>(lanes, num_lanes, count) : read_up_to_four<false>(lanes, num_lanes, count);
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::binpack
