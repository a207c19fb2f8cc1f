#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "chess/formats/binpack/native/entries/chain.h"

// Mending mutants: behind a wrong header nothing is decoded, so most of them get right ones.
namespace sparsepool::fuzz {

using Bytes = std::vector<std::uint8_t>;

inline void put_header(Bytes& file, std::size_t payload) {
    file.insert(file.end(), std::begin(binpack::kMagic), std::end(binpack::kMagic));
    for (int shift = 0; shift < 32; shift += 8) file.push_back(static_cast<std::uint8_t>(payload >> shift));
}

// The payloads between whatever looks like a header; bytes before the first magic belong to the first.
inline std::vector<Bytes> split_chunks(std::span<const std::uint8_t> file) {
    std::vector<Bytes> chunks;
    std::size_t begin = 0;
    while (begin < file.size()) {
        if (file.size() - begin >= 4 && std::memcmp(file.data() + begin, binpack::kMagic, 4) == 0) {
            begin += std::min<std::size_t>(binpack::kHeaderBytes, file.size() - begin);
        }
        const auto rest = file.subspan(begin);
        const auto next = std::search(rest.begin(), rest.end(), std::begin(binpack::kMagic), std::end(binpack::kMagic));
        chunks.emplace_back(rest.begin(), next);
        begin += static_cast<std::size_t>(next - rest.begin());
    }
    return chunks;
}

inline Bytes join_chunks(const std::vector<Bytes>& chunks) {
    Bytes file;
    for (const Bytes& chunk : chunks) {
        put_header(file, chunk.size());
        file.insert(file.end(), chunk.begin(), chunk.end());
    }
    return file;
}

// Where the chains of a payload begin, as far as it can be read.
inline std::vector<std::size_t> chain_begins(const Bytes& payload) {
    std::vector<std::size_t> begins;
    binpack::ChunkState state;
    state.payload = payload;
    while (binpack::next_entry(state)) {
        if (state.entry_index == 0) begins.push_back(state.chain_begin);
    }
    return begins;
}

}  // namespace sparsepool::fuzz
