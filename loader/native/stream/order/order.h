#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "random/philox.h"
#include "stream/order/mixture.h"

// In which order the stream gives chunks and entries: pure functions of seed and place (I1).
namespace sparsepool::stream {

// The chunks of an epoch, given in file order, permuted as a whole, then cut into windows of `window_chunks`. Those of
// components are mixed instead (mixture.h).
class ChunkOrder {
  public:
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

// The entries of a window, shuffled. They are seen as runs of as many consecutive entries as the window has
// lanes, a lane being about a batch; each run gives one entry to every lane, in a random order of its own.
// So the entries of a game go to different batches, batches hold entries of the whole window, and an entry
// moves once. The order within a lane is that of the runs: inside a batch it does not matter.
class EntryOrder {
  public:
    EntryOrder(std::uint32_t size, std::uint32_t batch_size, std::uint64_t seed, std::uint64_t epoch,
               std::uint64_t window);

    [[nodiscard]] std::uint32_t lanes() const { return lanes_; }
    [[nodiscard]] std::uint32_t num_runs() const { return num_runs_; }  // run r begins at entry r * lanes()

    // Memory for the order of one run, of the caller.
    struct Scratch {
        std::vector<std::uint32_t> words;
        std::vector<std::uint32_t> places;
    };

    // Places of the entries of a run in the shuffled window, into scratch.places; how many.
    std::uint32_t place_run(std::uint32_t run, Scratch& scratch) const;

  private:
    void draw_lanes(std::uint32_t run, Scratch& scratch) const;

    std::uint32_t size_;
    std::uint32_t lanes_;
    std::uint32_t num_runs_;
    random::Key key_;
    std::uint32_t epoch_;
    std::uint32_t window_;
    std::vector<std::uint32_t> lane_begin_;
};

}  // namespace sparsepool::stream
