#pragma once

#include <vector>

#include "base/matrix.h"

// An order of bags in which neighbours share features.
namespace sparsepool {

// Sorts the bags by their first features. Where the upper bits of a feature are the same for all features of a bag (in
// chess, the king's square), the rows of these bits stay in a cache; otherwise the order does no harm. A counting sort:
// about 0.2 ms for 32,768 bags.
std::vector<std::uint32_t> visiting_order(Offsets offsets, const Numbers& features, std::size_t num_features);

}  // namespace sparsepool
