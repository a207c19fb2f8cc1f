#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "random/philox.h"

// Sets of chunks that are read at given rates: which chunk comes when, as a pure function of seed and epoch (I1).
namespace sparsepool::stream {

// One read of a chunk.
struct ChunkTurn {
    std::uint32_t chunk = 0;
    std::uint64_t pass = 0;  // how often the chunk has been read before
};

// Consecutive chunks of a source.
struct Component {
    std::size_t num_chunks = 0;
    double rate = 1.0;  // chunks that are read of this component, relative to the other components
};

// How many chunks of each component an epoch reads: all of the component that lasts longest once, of the others as many
// as their rates say, at least one. Throws std::invalid_argument for rates so far apart that an epoch would not end.
[[nodiscard]] std::vector<std::uint64_t> reads_of_an_epoch(const std::vector<Component>& components);

// An epoch's chunks. Those of a component come at even distances. Each chunk of a component comes once before any comes
// again: passes over a component continue from epoch to epoch, each in an order of its own.
class Mixture {
  public:
    // `chunks`: those to be read, ascending. Each belongs to one of the components.
    Mixture(const std::vector<std::uint32_t>& chunks, const std::vector<Component>& components, bool shuffle,
            std::uint64_t seed);

    [[nodiscard]] std::uint64_t size() const { return size_; }  // chunks that an epoch reads

    // Whether any of the chunks belongs to that component.
    [[nodiscard]] bool has(std::size_t component) const {
        return std::ranges::any_of(lanes_, [&](const Lane& lane) { return lane.component == component; });
    }

    // The turns [begin, end) of an epoch.
    [[nodiscard]] std::vector<ChunkTurn> turns(std::uint64_t epoch, std::uint64_t begin, std::uint64_t end) const;

  private:
    // A component that has chunks.
    struct Lane {
        std::vector<std::uint32_t> chunks;
        std::uint32_t component = 0;
        std::uint64_t reads = 0;  // chunks that an epoch reads of it
    };

    [[nodiscard]] std::vector<std::uint64_t> count_reads_before(std::uint64_t turn) const;
    [[nodiscard]] std::size_t next_lane(const std::vector<std::uint64_t>& reads) const;
    [[nodiscard]] std::vector<std::uint32_t> permute_chunks(const Lane& lane, std::uint64_t pass) const;

    std::vector<Lane> lanes_;
    std::uint64_t size_ = 0;
    bool shuffle_;
    random::Key key_;
};

}  // namespace sparsepool::stream
