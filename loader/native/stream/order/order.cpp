#include "stream/order/order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "random/philox_many.h"

namespace sparsepool::stream {

ChunkOrder::ChunkOrder(std::vector<std::uint32_t> chunks, const std::vector<Component>& components,
                       std::size_t window_chunks, bool shuffle, std::uint64_t seed)
    : chunks_(std::move(chunks)),
      window_chunks_(window_chunks),
      shuffle_(shuffle),
      key_(random::key_of(seed, random::Purpose::kChunkOrder)) {
    if (!components.empty()) mixture_.emplace(chunks_, components, shuffle, seed);
    const std::uint64_t epoch_chunks = mixture_ ? mixture_->size() : chunks_.size();
    num_windows_ = (epoch_chunks + window_chunks - 1) / window_chunks;
}

// Permutes all chunks of the epoch, then takes those of the window.
std::vector<ChunkTurn> ChunkOrder::window(std::uint64_t epoch, std::uint64_t window) const {
    if (mixture_) return mixture_->turns(epoch, window * window_chunks_, (window + 1) * window_chunks_);
    std::vector<std::uint32_t> order = chunks_;
    if (shuffle_) {
        random::Sequence draws(key_, static_cast<std::uint32_t>(epoch));
        random::shuffle(order, draws);
    }
    const std::size_t begin = std::min<std::size_t>(window * window_chunks_, order.size());
    const std::size_t end = begin + std::min(window_chunks_, order.size() - begin);
    std::vector<ChunkTurn> turns;
    for (std::size_t i = begin; i < end; ++i) turns.push_back({order[i], epoch});
    return turns;
}

EntryOrder::EntryOrder(std::uint32_t size, std::uint32_t batch_size, std::uint64_t seed, std::uint64_t epoch,
                       std::uint64_t window)
    : size_(size),
      num_lanes_(std::max(1U, size / batch_size + (size % batch_size != 0 ? 1U : 0U))),
      num_runs_(size / num_lanes_ + (size % num_lanes_ != 0 ? 1U : 0U)),
      key_(random::key_of(seed, random::Purpose::kEntryOrder)),
      epoch_(static_cast<std::uint32_t>(epoch)),
      window_(static_cast<std::uint32_t>(window)),
      lane_begins_(num_lanes_) {
    // Each lane has one entry of every full run. The last run may be shorter: the lanes drawn first get its entries.
    std::vector<std::uint32_t> lane_sizes(num_lanes_, size / num_lanes_);
    const std::uint32_t last_run_size = size % num_lanes_;
    if (last_run_size != 0) {
        RunBuffer last_run;
        draw_lanes(num_runs_ - 1, last_run);
        for (std::uint32_t i = 0; i < last_run_size; ++i) ++lane_sizes[last_run.positions[i]];
    }
    std::exclusive_scan(lane_sizes.begin(), lane_sizes.end(), lane_begins_.begin(), 0U);
}

std::span<const std::uint32_t> EntryOrder::find_positions(std::uint32_t run, RunBuffer& buffer) const {
    const std::uint32_t count = std::min(num_lanes_, size_ - run * num_lanes_);
    draw_lanes(run, buffer);
    std::uint32_t* positions = buffer.positions.data();
    for (std::uint32_t i = 0; i < count; ++i) positions[i] = lane_begins_[positions[i]] + run;
    return {positions, count};
}

// Fills buffer.positions with a random permutation of 0 .. num_lanes - 1, by the inside-out shuffle of Fisher and
// Yates. The random words are those of random::Sequence.
void EntryOrder::draw_lanes(std::uint32_t run, RunBuffer& buffer) const {
    const std::size_t num_counters = (num_lanes_ + 3) / 4;  // four words each
    buffer.random_words.resize(random::padded_words(num_counters));
    buffer.positions.resize(num_lanes_);
    random::philox_many({0, run, window_, epoch_}, key_, num_counters, buffer.random_words.data());
    const std::uint32_t* words = buffer.random_words.data();
    std::uint32_t* lanes = buffer.positions.data();
    for (std::uint32_t i = 0; i < num_lanes_; ++i) {
        const std::uint32_t j = random::scale(words[i], i + 1);
        lanes[i] = lanes[j];
        lanes[j] = i;
    }
}

}  // namespace sparsepool::stream
