#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stream/order/mixture.h"
#include "stream/records.h"
#include "stream/source.h"

// A window on its way: its chunks are decoded one by one, then their records are shuffled (shuffle.h).
namespace sparsepool::stream {

struct LoadedChunk {
    RecordBuffer records;
    std::optional<SourceFault> fault;
    std::vector<SkippedData> skipped;
};

// How many parts of some work threads have claimed and finished.
struct PartCounter {
    std::size_t count = 0;
    std::size_t claimed = 0;
    std::size_t finished = 0;

    [[nodiscard]] bool has_unclaimed() const { return claimed < count; }
    [[nodiscard]] bool all_finished() const { return finished == count; }
};

struct LoadingWindow {
    std::uint64_t epoch = 0;
    std::uint64_t window = 0;
    std::vector<ChunkTurn> chunks;
    std::vector<LoadedChunk> loaded;  // one for each of `chunks`
    PartCounter parts;                // one part for each of `chunks`

    // The first fault in the order of the chunks; null if there is none.
    [[nodiscard]] const SourceFault* first_fault() const {
        for (const LoadedChunk& chunk : loaded) {
            if (chunk.fault) return &*chunk.fault;
        }
        return nullptr;
    }
};

}  // namespace sparsepool::stream
