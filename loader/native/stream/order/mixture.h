#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "random/philox.h"

// Sets of chunks that are read in given shares: which chunk comes when, as a pure function of seed and epoch (I1).
namespace sparsepool::stream {

// A chunk that is read, and how often that has been done before: its pass.
struct ChunkTurn {
    std::uint32_t chunk = 0;
    std::uint64_t pass = 0;
};

// Consecutive chunks of a source.
struct Component {
    std::size_t num_chunks = 0;
    double rate = 1.0;  // chunks of it, against those of the others
};

// How many chunks of each component an epoch has: the one that lasts longest once, the others as often as their rates
// say, at least one. Throws std::invalid_argument for rates so far apart that an epoch would not end.
[[nodiscard]] std::vector<std::uint64_t> reads_of_an_epoch(const std::vector<Component>& components);

// An epoch's chunks. Those of a component come at even distances, and each of its chunks comes once before one comes
// again: its passes go on from epoch to epoch, each in an order of its own.
class Mixture {
  public:
    // `chunks`: those to be read, ascending, each of one of the components.
    Mixture(const std::vector<std::uint32_t>& chunks, const std::vector<Component>& components, bool shuffle,
            std::uint64_t seed);

    [[nodiscard]] std::uint64_t size() const { return size_; }  // of an epoch

    // Whether any of the chunks is of that component.
    [[nodiscard]] bool has(std::size_t component) const {
        return std::ranges::any_of(lanes_, [&](const Lane& lane) { return lane.number == component; });
    }

    // Places [begin, end) of an epoch.
    [[nodiscard]] std::vector<ChunkTurn> turns(std::uint64_t epoch, std::uint64_t begin, std::uint64_t end) const;

  private:
    struct Lane {
        std::vector<std::uint32_t> chunks;
        std::uint32_t number = 0;  // of the component
        std::uint64_t reads = 0;   // of an epoch
    };

    [[nodiscard]] std::vector<std::uint64_t> read_before(std::uint64_t place) const;
    [[nodiscard]] std::size_t next(const std::vector<std::uint64_t>& read) const;
    [[nodiscard]] std::vector<std::uint32_t> order(const Lane& lane, std::uint64_t pass) const;

    std::vector<Lane> lanes_;
    std::uint64_t size_ = 0;
    bool shuffle_;
    random::Key key_;
};

}  // namespace sparsepool::stream
