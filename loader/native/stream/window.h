#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stream/order/mixture.h"
#include "stream/records.h"
#include "stream/source.h"

// A window on its way: its chunks are decoded one by one, then their records are put in order (scatter.h).
namespace sparsepool::stream {

struct LoadedChunk {
    RecordBuffer records;
    std::optional<SourceFault> fault;
    std::vector<LeftOut> left_out;
};

// How many parts of a job have been given out and have come back.
struct Parts {
    std::size_t count = 0;
    std::size_t claimed = 0;
    std::size_t finished = 0;

    [[nodiscard]] bool left() const { return claimed < count; }
    [[nodiscard]] bool done() const { return finished == count; }
};

struct Loading {
    std::uint64_t epoch = 0;
    std::uint64_t window = 0;
    std::vector<ChunkTurn> chunks;
    std::vector<LoadedChunk> loaded;  // one per chunk
    Parts parts;

    // The first fault, in the order of the chunks.
    [[nodiscard]] const SourceFault* fault() const {
        for (const LoadedChunk& chunk : loaded) {
            if (chunk.fault) return &*chunk.fault;
        }
        return nullptr;
    }
};

}  // namespace sparsepool::stream
