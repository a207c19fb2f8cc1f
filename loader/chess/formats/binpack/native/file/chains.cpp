#include "chess/formats/binpack/native/file/chains.h"

#include "chess/formats/binpack/native/entries/chain.h"
#include "chess/formats/binpack/native/entries/stem.h"
#include "chess/formats/binpack/native/file/chunk.h"
#include "chess/native/make_record.h"

namespace sparsepool::binpack {

Chains cut_chains(std::span<const std::uint8_t> payload, std::uint64_t payload_offset, const chess::Demands& demands) {
    Chains chains;
    chess::UnitBlock& block = chains.block;
    ChunkState state;
    state.payload = payload;
    chess::IllegalTally left_out;
    state.demands = demands;
    state.left_out = &left_out;
    while (next_entry(state)) {
        if (state.chains > block.entries.size()) {
            if (!block.entries.empty()) block.ends.push_back(state.stem);
            block.entries.push_back(0);
        }
        ++block.entries.back();
    }
    if (state.fault != Fault::kNone) {
        chains.damage = damage_of(state, payload_offset);
        if (!block.entries.empty()) block.entries.pop_back();  // of which the damage is, or one before it
    } else if (!block.entries.empty()) {
        block.ends.push_back((state.bit + 7) / 8);
    }
    block.bytes.assign(reinterpret_cast<const char*>(payload.data()), block.ends.empty() ? 0 : block.ends.back());
    return chains;
}

std::vector<chess::Record> first_entries(std::span<const std::uint8_t> chains, std::span<const std::uint64_t> begins) {
    std::vector<chess::Record> records;
    records.reserve(begins.size());
    for (const std::uint64_t begin : begins) {
        chess::Entry entry;
        if (read_stem(chains.data() + begin, entry) != Fault::kNone) entry = {};
        records.push_back(chess::make_record(entry));
    }
    return records;
}

}  // namespace sparsepool::binpack
