#include "sparse/visiting_order.h"

#include <numeric>

namespace sparsepool {

// Counting sort by the upper bits of the first feature.
std::vector<std::uint32_t> visiting_order(Offsets offsets, const Numbers& features, std::size_t num_features) {
    constexpr std::size_t kMaxKeys = 4096;
    std::size_t shift = 0;  // low bits of a feature that its key drops
    while (num_features >> shift > kMaxKeys) ++shift;
    const std::size_t bags = offsets.size - 1;
    const auto key_of = [&](std::size_t bag) -> std::size_t {
        const std::uint32_t begin = offsets.data[bag];
        return begin == offsets.data[bag + 1] ? 0 : features[begin] >> shift;
    };
    std::vector<std::uint32_t> positions((num_features >> shift) + 2);  // by key: first counts, then where bags go
    for (std::size_t bag = 0; bag < bags; ++bag) ++positions[key_of(bag) + 1];
    std::partial_sum(positions.begin(), positions.end(), positions.begin());
    std::vector<std::uint32_t> order(bags);
    for (std::size_t bag = 0; bag < bags; ++bag) {
        std::uint32_t& position = positions[key_of(bag)];
        order[position] = static_cast<std::uint32_t>(bag);
        ++position;
    }
    return order;
}

}  // namespace sparsepool
