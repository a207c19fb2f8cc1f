#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "chess/native/board/rules.h"
#include "chess/native/record.h"

namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

// Writes the entry as the stream carries it. Finding out whether there is check takes a fifth of decoding (43 ns an
// entry, 35 without). Without `kChecks` the flag kInCheck is not set.
template <bool kChecks>
inline void write_record(const Entry& entry, Record& record) {
    const Position& position = entry.position;
    record.occupied = position.occupied;
    // Two planes at once: plane by plane, compilers go through vector registers, which is slower.
    for (unsigned i = 0; i < 4; i += 2) {
        const std::uint64_t pair = extract_bits(position.planes[i], position.occupied) |
                                   extract_bits(position.planes[i + 1], position.occupied) << 32;
        std::memcpy(&record.planes[i], &pair, sizeof pair);
    }
    record.score = entry.score;
    record.ply = entry.ply;
    record.move = entry.move.word;
    static_assert(unsigned{kBlack} == unsigned{kBlackToMove});
    unsigned flags = position.side | result_bits(entry.result) << kResultShift;
    flags |= unsigned{position.castling} << kRightsShift;
    flags |= std::min<unsigned>(position.rule50, kRecordClock) << kClockShift;
    flags |= (entry.missing_parts & kPlyPart) != 0 ? unsigned{kNoPly} : 0U;
    if constexpr (kChecks) flags |= in_check(position) ? unsigned{kInCheck} : 0U;
    record.flags = static_cast<std::uint16_t>(flags);
}

[[nodiscard]] inline Record make_record(const Entry& entry) {
    Record record;
    write_record<true>(entry, record);
    return record;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
