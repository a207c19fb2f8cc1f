#pragma once

#include <vector>

#include "base/matrix.h"

// An order of bags in which neighbours share features.
namespace sparsepool {

// The bags by their first features. Where a feature's number begins with a part that all features of a bag share (a
// king's square, say), the rows of that part stay in a cache; else it does no harm. Counting sort, about 0.2 ms for
// 32,768 bags.
std::vector<std::uint32_t> visiting_order(Offsets offsets, const Numbers& features, std::size_t num_features);

}  // namespace sparsepool
