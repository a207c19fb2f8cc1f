#include "stream/order/mixture.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "common/check.h"

namespace sparsepool::stream {
namespace {

constexpr double kMostReads = 1U << 31;  // of an epoch: products of places fit 64 bits

}  // namespace

std::vector<std::uint64_t> reads_of_an_epoch(const std::vector<Component>& components) {
    double longest = 0.0;
    for (const Component& component : components) {
        require(std::isfinite(component.rate) && component.rate > 0.0, "a rate is above 0, not ", component.rate);
        longest = std::max(longest, static_cast<double>(component.num_chunks) / component.rate);
    }
    std::vector<std::uint64_t> reads;
    double sum = 0.0;
    for (const Component& component : components) {
        const double exact = longest * component.rate;
        sum += exact + 1.0;
        require(sum <= kMostReads, "data.train: the shares are so far apart that an epoch would have over 2^31 chunks");
        reads.push_back(component.num_chunks == 0 ? 0 : static_cast<std::uint64_t>(std::max(1.0, std::round(exact))));
    }
    return reads;
}

Mixture::Mixture(const std::vector<std::uint32_t>& chunks, const std::vector<Component>& components, bool shuffle,
                 std::uint64_t seed)
    : shuffle_(shuffle), key_(random::key_of(seed, random::Purpose::kMixtureOrder)) {
    std::vector<Component> there;  // of those chunks
    std::size_t end = 0;
    auto begin = chunks.begin();
    for (std::uint32_t number = 0; number < components.size(); ++number) {
        end += components[number].num_chunks;
        const auto behind = std::lower_bound(begin, chunks.end(), end);
        if (behind != begin) {
            lanes_.push_back({{begin, behind}, number, 0});
            there.push_back({lanes_.back().chunks.size(), components[number].rate});
        }
        begin = behind;
    }
    require(begin == chunks.end(), "components have ", end, " chunks, and there are more");
    const std::vector<std::uint64_t> reads = reads_of_an_epoch(there);
    for (std::size_t i = 0; i < lanes_.size(); ++i) size_ += lanes_[i].reads = reads[i];
}

std::vector<ChunkTurn> Mixture::turns(std::uint64_t epoch, std::uint64_t begin, std::uint64_t end) const {
    struct Pass {
        std::optional<std::uint64_t> number;
        std::vector<std::uint32_t> order;
    };
    std::vector<Pass> passes(lanes_.size());
    std::vector<std::uint64_t> read = read_before(begin);
    std::vector<ChunkTurn> turns;
    for (std::uint64_t place = begin; place < std::min(end, size_); ++place) {
        const std::size_t i = next(read);
        const Lane& lane = lanes_[i];
        const std::uint64_t turn = epoch * lane.reads + read[i]++;
        const std::uint64_t pass = turn / lane.chunks.size();
        if (passes[i].number != pass) passes[i] = {pass, order(lane, pass)};
        turns.push_back({passes[i].order[turn % lane.chunks.size()], pass});
    }
    return turns;
}

// Chunk number j of a lane comes at (2j + 1) / (2 reads) of the epoch. At a time a little before the place, each lane's
// count follows from that; from there on it is counted.
std::vector<std::uint64_t> Mixture::read_before(std::uint64_t place) const {
    const std::uint64_t time = place - std::min<std::uint64_t>(place, lanes_.size());  // in `size_` parts of an epoch
    std::vector<std::uint64_t> read;
    std::uint64_t sum = 0;
    for (const Lane& lane : lanes_) {
        const std::uint64_t twice = 2 * lane.reads * time;
        read.push_back(twice <= size_ ? 0 : (twice - size_ + 2 * size_ - 1) / (2 * size_));
        sum += read.back();
    }
    for (; sum < place; ++sum) ++read[next(read)];
    return read;
}

// The lane whose next chunk comes first; of the same time, the first one.
std::size_t Mixture::next(const std::vector<std::uint64_t>& read) const {
    std::size_t best = 0;
    for (std::size_t i = 1; i < lanes_.size(); ++i) {
        if ((2 * read[i] + 1) * lanes_[best].reads < (2 * read[best] + 1) * lanes_[i].reads) best = i;
    }
    return best;
}

std::vector<std::uint32_t> Mixture::order(const Lane& lane, std::uint64_t pass) const {
    std::vector<std::uint32_t> order = lane.chunks;
    if (!shuffle_) return order;
    random::Sequence draws(key_, static_cast<std::uint32_t>(pass), lane.number, static_cast<std::uint32_t>(pass >> 32));
    for (std::size_t i = order.size(); i > 1; --i) {
        std::swap(order[i - 1], order[draws.below(static_cast<std::uint32_t>(i))]);
    }
    return order;
}

}  // namespace sparsepool::stream
