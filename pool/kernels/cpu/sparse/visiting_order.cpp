#include "sparse/visiting_order.h"

#include <numeric>

namespace sparsepool {

std::vector<std::uint32_t> visiting_order(Offsets offsets, const Numbers& features, std::size_t num_features) {
    constexpr std::size_t kMostKeys = 4096;
    std::size_t shift = 0;
    while (num_features >> shift > kMostKeys) ++shift;
    const std::size_t bags = offsets.size - 1;
    const auto key = [&](std::size_t bag) -> std::size_t {
        const std::uint32_t begin = offsets.data[bag];
        return begin == offsets.data[bag + 1] ? 0 : features[begin] >> shift;
    };
    std::vector<std::uint32_t> places((num_features >> shift) + 2);
    for (std::size_t bag = 0; bag < bags; ++bag) ++places[key(bag) + 1];
    std::partial_sum(places.begin(), places.end(), places.begin());
    std::vector<std::uint32_t> order(bags);
    for (std::size_t bag = 0; bag < bags; ++bag) order[places[key(bag)]++] = static_cast<std::uint32_t>(bag);
    return order;
}

}  // namespace sparsepool
