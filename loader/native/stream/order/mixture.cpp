#include "stream/order/mixture.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "common/check.h"

namespace sparsepool::stream {
namespace {

constexpr double kMaxReads = 1U << 31;  // of an epoch: products of two counts fit 64 bits

}  // namespace

// The component that lasts longest is read once: `longest` is its chunks / rate. The others get longest * rate,
// rounded.
std::vector<std::uint64_t> reads_of_an_epoch(const std::vector<Component>& components) {
    double longest = 0.0;  // chunks / rate of the component that lasts longest
    for (const Component& component : components) {
        require(std::isfinite(component.rate) && component.rate > 0.0, "a rate is above 0, not ", component.rate);
        longest = std::max(longest, static_cast<double>(component.num_chunks) / component.rate);
    }
    std::vector<std::uint64_t> reads;
    double sum = 0.0;
    for (const Component& component : components) {
        const double exact = longest * component.rate;  // before rounding
        sum += exact + 1.0;
        require(sum <= kMaxReads, "data.train: the shares are so far apart that an epoch would have over 2^31 chunks");
        const auto rounded = static_cast<std::uint64_t>(std::max(1.0, std::round(exact)));
        reads.push_back(component.num_chunks == 0 ? 0 : rounded);
    }
    return reads;
}

Mixture::Mixture(const std::vector<std::uint32_t>& chunks, const std::vector<Component>& components, bool shuffle,
                 std::uint64_t seed)
    : shuffle_(shuffle), key_(random::key_of(seed, random::Purpose::kMixtureOrder)) {
    std::vector<Component> components_read;  // as far as they have any of the chunks
    std::size_t component_end = 0;           // the first chunk after the component
    auto begin = chunks.begin();
    for (std::uint32_t i = 0; i < components.size(); ++i) {
        component_end += components[i].num_chunks;
        const auto end = std::lower_bound(begin, chunks.end(), component_end);
        if (begin != end) {
            lanes_.push_back({{begin, end}, i, 0});
            components_read.push_back({lanes_.back().chunks.size(), components[i].rate});
        }
        begin = end;
    }
    require(begin == chunks.end(), "components have ", component_end, " chunks, and there are more");
    const std::vector<std::uint64_t> reads = reads_of_an_epoch(components_read);
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        lanes_[i].reads = reads[i];
        size_ += reads[i];
    }
}

// Repeats the choices of the epoch from turn `begin` on: which lane comes next, and which chunk of the lane's pass.
std::vector<ChunkTurn> Mixture::turns(std::uint64_t epoch, std::uint64_t begin, std::uint64_t end) const {
    struct Pass {
        std::optional<std::uint64_t> number;
        std::vector<std::uint32_t> chunks;
    };
    std::vector<Pass> passes(lanes_.size());  // the latest pass over each lane
    std::vector<std::uint64_t> reads = count_reads_before(begin);
    std::vector<ChunkTurn> turns;
    for (std::uint64_t turn = begin; turn < std::min(end, size_); ++turn) {
        const std::size_t i = next_lane(reads);
        const Lane& lane = lanes_[i];
        const std::uint64_t lane_turn = epoch * lane.reads + reads[i];  // since the first epoch
        ++reads[i];
        const std::uint64_t pass = lane_turn / lane.chunks.size();
        if (passes[i].number != pass) passes[i] = {pass, permute_chunks(lane, pass)};
        turns.push_back({passes[i].chunks[lane_turn % lane.chunks.size()], pass});
    }
    return turns;
}

// How many chunks of each lane come before a turn of an epoch.
//
// Chunk j of a lane comes at (2j + 1) / (2 reads) of the epoch. For a time a little before the turn, the formula gives
// how many chunks of each lane came earlier. The turns from there on are counted one by one.
std::vector<std::uint64_t> Mixture::count_reads_before(std::uint64_t turn) const {
    const std::uint64_t time = turn - std::min<std::uint64_t>(turn, lanes_.size());  // of an epoch of length `size_`
    std::vector<std::uint64_t> reads;
    std::uint64_t sum = 0;
    for (const Lane& lane : lanes_) {
        const std::uint64_t twice = 2 * lane.reads * time;
        const std::uint64_t earlier = twice <= size_ ? 0 : (twice - size_ + 2 * size_ - 1) / (2 * size_);  // rounded up
        reads.push_back(earlier);
        sum += earlier;
    }
    for (; sum < turn; ++sum) ++reads[next_lane(reads)];
    return reads;
}

// The lane whose next chunk comes first: the least (2 reads[i] + 1) / lane.reads, compared without division. Of several
// the first.
std::size_t Mixture::next_lane(const std::vector<std::uint64_t>& reads) const {
    std::size_t best = 0;
    for (std::size_t i = 1; i < lanes_.size(); ++i) {
        if ((2 * reads[i] + 1) * lanes_[best].reads < (2 * reads[best] + 1) * lanes_[i].reads) best = i;
    }
    return best;
}

// The order of a lane's chunks in one pass.
std::vector<std::uint32_t> Mixture::permute_chunks(const Lane& lane, std::uint64_t pass) const {
    std::vector<std::uint32_t> chunks = lane.chunks;
    if (!shuffle_) return chunks;
    const auto pass_low = static_cast<std::uint32_t>(pass);
    const auto pass_high = static_cast<std::uint32_t>(pass >> 32);
    random::Sequence draws(key_, pass_low, lane.component, pass_high);
    random::shuffle(chunks, draws);
    return chunks;
}

}  // namespace sparsepool::stream
