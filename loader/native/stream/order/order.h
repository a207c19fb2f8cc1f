#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "random/philox.h"
#include "stream/order/mixture.h"

// The order in which the stream gives chunks and entries: a pure function of seed and position (I1).
namespace sparsepool::stream {

// The chunks of an epoch: permuted, then cut into windows of `window_chunks`. Chunks of components are mixed instead
// (mixture.h).
class ChunkOrder {
  public:
    // `chunks`: ascending.
    ChunkOrder(std::vector<std::uint32_t> chunks, const std::vector<Component>& components, std::size_t window_chunks,
               bool shuffle, std::uint64_t seed);

    [[nodiscard]] std::uint64_t num_windows() const { return num_windows_; }
    [[nodiscard]] bool has(std::size_t component) const { return mixture_ && mixture_->has(component); }
    [[nodiscard]] std::vector<ChunkTurn> window(std::uint64_t epoch, std::uint64_t window) const;

  private:
    std::vector<std::uint32_t> chunks_;
    std::optional<Mixture> mixture_;
    std::size_t window_chunks_;
    std::uint64_t num_windows_;
    bool shuffle_;
    random::Key key_;
};

// Memory of the caller for the positions of one run.
struct RunBuffer {
    std::vector<std::uint32_t> positions;
    std::vector<std::uint32_t> random_words;
};

// The order of a window's entries when they are shuffled.
//
// The shuffled window consists of lanes, each about as long as a batch. The entries are taken in runs of as many
// consecutive entries as there are lanes. Each run gives one entry to every lane, in a random order of its own. So the
// entries of a game go to different batches, a batch holds entries of the full window, and an entry moves once. Within
// a lane entries keep the order of the runs: inside a batch the order does not matter.
class EntryOrder {
  public:
    EntryOrder(std::uint32_t size, std::uint32_t batch_size, std::uint64_t seed, std::uint64_t epoch,
               std::uint64_t window);

    [[nodiscard]] std::uint32_t num_lanes() const { return num_lanes_; }
    [[nodiscard]] std::uint32_t num_runs() const { return num_runs_; }  // run r begins at entry r * num_lanes()

    // The position in the shuffled window of each entry of a run. Valid until the buffer is used again.
    [[nodiscard]] std::span<const std::uint32_t> find_positions(std::uint32_t run, RunBuffer& buffer) const;

  private:
    void draw_lanes(std::uint32_t run, RunBuffer& buffer) const;

    std::uint32_t size_;
    std::uint32_t num_lanes_;
    std::uint32_t num_runs_;
    random::Key key_;
    std::uint32_t epoch_;
    std::uint32_t window_;
    std::vector<std::uint32_t> lane_begins_;  // position of each lane's first entry
};

}  // namespace sparsepool::stream
