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
    num_windows_ = ((mixture_ ? mixture_->size() : chunks_.size()) + window_chunks - 1) / window_chunks;
}

std::vector<ChunkTurn> ChunkOrder::window(std::uint64_t epoch, std::uint64_t window) const {
    if (mixture_) return mixture_->turns(epoch, window * window_chunks_, (window + 1) * window_chunks_);
    const std::size_t begin = std::min<std::size_t>(window * window_chunks_, chunks_.size());
    const std::size_t end = begin + std::min(window_chunks_, chunks_.size() - begin);
    std::vector<std::uint32_t> order = chunks_;
    if (shuffle_) {
        random::Sequence draws(key_, static_cast<std::uint32_t>(epoch));
        for (std::size_t i = order.size(); i > 1; --i) {
            std::swap(order[i - 1], order[draws.below(static_cast<std::uint32_t>(i))]);
        }
    }
    std::vector<ChunkTurn> turns;
    for (std::size_t i = begin; i < end; ++i) turns.push_back({order[i], epoch});
    return turns;
}

EntryOrder::EntryOrder(std::uint32_t size, std::uint32_t batch_size, std::uint64_t seed, std::uint64_t epoch,
                       std::uint64_t window)
    : size_(size),
      lanes_(std::max(1U, size / batch_size + (size % batch_size != 0 ? 1U : 0U))),
      num_runs_(size / lanes_ + (size % lanes_ != 0 ? 1U : 0U)),
      key_(random::key_of(seed, random::Purpose::kEntryOrder)),
      epoch_(static_cast<std::uint32_t>(epoch)),
      window_(static_cast<std::uint32_t>(window)),
      lane_begin_(lanes_) {
    // A lane has an entry of every whole run, and one more if it is among the first drawn by the last, short run.
    std::vector<std::uint32_t> sizes(lanes_, size / lanes_);
    if (const std::uint32_t rest = size % lanes_; rest != 0) {
        Scratch drawn;
        draw_lanes(num_runs_ - 1, drawn);
        for (std::uint32_t i = 0; i < rest; ++i) ++sizes[drawn.places[i]];
    }
    std::exclusive_scan(sizes.begin(), sizes.end(), lane_begin_.begin(), 0U);
}

std::uint32_t EntryOrder::place_run(std::uint32_t run, Scratch& scratch) const {
    const std::uint32_t count = std::min(lanes_, size_ - run * lanes_);
    draw_lanes(run, scratch);
    for (std::uint32_t i = 0; i < count; ++i) scratch.places[i] = lane_begin_[scratch.places[i]] + run;
    return count;
}

// A random permutation of 0 .. lanes - 1, grown from the inside out; the words are those of random::Sequence.
void EntryOrder::draw_lanes(std::uint32_t run, Scratch& scratch) const {
    const std::size_t counters = (lanes_ + 3) / 4;
    scratch.words.resize(random::room_for_words(counters));
    scratch.places.resize(lanes_);
    random::philox_many({0, run, window_, epoch_}, key_, counters, scratch.words.data());
    const std::uint32_t* words = scratch.words.data();
    std::uint32_t* lanes = scratch.places.data();
    for (std::uint32_t i = 0; i < lanes_; ++i) {
        const std::uint32_t j = random::scale(words[i], i + 1);
        lanes[i] = lanes[j];
        lanes[j] = i;
    }
}

}  // namespace sparsepool::stream
