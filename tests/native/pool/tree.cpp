#include <doctest/doctest.h>

#include <vector>

#include "reduce/tree.h"

using namespace sparsepool;

namespace {

// The sum of these leaves as brackets, along the joins.
std::vector<std::vector<std::uint32_t>> nodes_of(const std::vector<std::uint32_t>& leaves) {
    std::vector<std::uint8_t> joins(leaves.size());
    find_joins(leaves.data(), leaves.size(), joins.data());
    std::vector<std::vector<std::uint32_t>> waiting;
    std::vector<std::vector<std::uint32_t>> nodes;
    for (std::size_t s = 0; s < leaves.size(); ++s) {
        waiting.push_back({leaves[s]});
        for (unsigned i = 0; i < joins[s]; ++i) {
            std::vector<std::uint32_t> right = waiting.back();
            waiting.pop_back();
            waiting.back().insert(waiting.back().end(), right.begin(), right.end());
            nodes.push_back(waiting.back());
        }
    }
    REQUIRE(waiting.size() == (leaves.empty() ? 0 : 1));
    return nodes;
}

}  // namespace

TEST_CASE("leaves are joined in the smallest nodes that hold them, left to right") {
    using Nodes = std::vector<std::vector<std::uint32_t>>;
    CHECK(nodes_of({}).empty());
    CHECK(nodes_of({7}).empty());
    CHECK(nodes_of({0, 1, 2, 3, 4}) == Nodes{{0, 1}, {2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3, 4}});
    CHECK(nodes_of({1, 2, 3}) == Nodes{{2, 3}, {1, 2, 3}});
    CHECK(nodes_of({0, 0xFFFFFFFF}) == Nodes{{0, 0xFFFFFFFF}});
}
