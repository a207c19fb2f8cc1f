#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "chess/formats/binpack/native/entries/chain.h"
#include "chess/formats/binpack/native/writer.h"

// What the targets share: reading and re-reading entries, and how a finding is told.
namespace sparsepool::fuzz {

// Every oracle ends here: the fuzzer keeps the input that led to it.
#define FUZZ_REQUIRE(condition)                                                                 \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
            std::abort();                                                                       \
        }                                                                                       \
    } while (false)

struct ReadEntry {
    chess::Entry entry;
    std::uint64_t stem = 0;  // offset of its chain's stem in the payload
    bool first = false;      // of its chain
};

// The good entries of a payload; the walk's state afterwards in `state`.
inline std::vector<ReadEntry> read_entries(std::span<const std::uint8_t> payload, binpack::ChunkState& state) {
    std::vector<ReadEntry> entries;
    state = {};
    state.payload = payload;
    while (binpack::next_entry(state)) entries.push_back({state.entry, state.chain_begin, state.entry_index == 0});
    return entries;
}

// Position, move, score, ply, result; not rule50, which a continued chain leaves to the rules.
inline bool same_entry(const chess::Entry& a, const chess::Entry& b) {
    return a.position.occupied == b.position.occupied &&
           std::equal(std::begin(a.position.planes), std::end(a.position.planes), b.position.planes) &&
           a.position.side == b.position.side && a.position.castling == b.position.castling &&
           a.position.ep_square == b.position.ep_square && a.move.word == b.move.word && a.score == b.score &&
           a.ply == b.ply && a.result == b.result;
}

// A move text may say castling as long as the right is held, wherever the king is; it can't be played then, and the
// writer takes it in a stem only.
inline bool castles_from_nowhere(const chess::Entry& entry) {
    chess::Position position = entry.position;
    return entry.move.type() == chess::MoveType::kCastling &&
           chess::play(position, entry.move) != chess::MoveFault::kNone;
}

// Writes the entries and reads them again: they must be the same. Those that the writer refuses are left out; a
// refusal must say why.
inline void check_round_trip(const std::vector<ReadEntry>& entries) {
    binpack::Writer writer;
    std::vector<chess::Entry> written;
    std::size_t chains = 0;  // as read
    for (const ReadEntry& read : entries) {
        const std::string fault = writer.add(read.entry);
        chains += read.first || castles_from_nowhere(read.entry) ? 1 : 0;
        if (fault.empty()) {
            written.push_back(read.entry);
        } else {
            FUZZ_REQUIRE(fault.ends_with("can't be stored") || fault.ends_with("at most 16383"));
        }
    }
    // What could be said in a move text can be said in one: a nonsense move would need a stem of its own.
    if (written.size() == entries.size()) FUZZ_REQUIRE(writer.chains() <= chains);
    writer.finish();
    const std::vector<std::uint8_t> bytes = writer.take();
    FUZZ_REQUIRE(bytes.empty() == written.empty());
    if (written.empty()) return;
    FUZZ_REQUIRE(bytes.size() < binpack::kFullChunk);  // inputs are small: one chunk
    binpack::ChunkState state;
    const auto again = read_entries(std::span(bytes).subspan(binpack::kHeaderBytes), state);
    FUZZ_REQUIRE(state.fault == binpack::Fault::kNone);
    FUZZ_REQUIRE(again.size() == written.size());
    for (std::size_t i = 0; i < again.size(); ++i) {
        FUZZ_REQUIRE(same_entry(again[i].entry, written[i]));
        if (again[i].first) FUZZ_REQUIRE(again[i].entry.position.rule50 == written[i].position.rule50);
    }
}

}  // namespace sparsepool::fuzz
