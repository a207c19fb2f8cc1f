#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "base/lists.h"
#include "base/matrix.h"
#include "common/simd.h"
#include "reduce/sources.h"

using namespace sparsepool;

namespace {

template <class Number>
Numbers numbers_of(const std::vector<Number>& list) {
    return {list.data(), list.size(), sizeof(Number) == 4};
}

}  // namespace

TEST_CASE("lists are checked alike at every level") {
    const simd::Level before = simd::level();
    for (const simd::Level level : simd::levels()) {
        simd::set_level(simd::name_of(level));
        const auto& kernels = simd::kernels<ListKernels>();
        std::vector<std::uint32_t> rising(1000);
        for (std::uint32_t i = 0; i < rising.size(); ++i) rising[i] = 3 * i;
        CHECK(kernels.ascending(numbers_of(rising), true));
        CHECK(kernels.maximum(numbers_of(rising)) == 2997);
        for (const std::size_t place : {1U, 17U, 500U, 999U}) {
            std::vector<std::uint32_t> wrong = rising;
            wrong[place] = wrong[place - 1];
            CHECK_FALSE(kernels.ascending(numbers_of(wrong), true));
            CHECK(kernels.ascending(numbers_of(wrong), false));
            wrong[place] = wrong[place - 1] - 1;
            CHECK_FALSE(kernels.ascending(numbers_of(wrong), false));
        }
        CHECK(kernels.maximum({}) == 0);
        CHECK(kernels.maximum(numbers_of(std::vector<std::uint16_t>{4, 65535, 9})) == 65535);
    }
    simd::set_level(simd::name_of(before));
}

TEST_CASE("the first number of at least a value is found by bisection") {
    const std::vector<std::uint16_t> list = {2, 4, 4, 9};
    const Numbers numbers = numbers_of(list);
    const std::size_t expected[] = {0, 0, 0, 1, 1, 3, 3, 3, 3, 3, 4};
    for (std::size_t value = 0; value < std::size(expected); ++value)
        CHECK(lower_bound(numbers, value) == expected[value]);
}

TEST_CASE("wrong lists are refused with the number that is wrong") {
    const std::vector<std::uint32_t> falling = {0, 3, 2, 4};
    CHECK_THROWS_WITH_AS(check_offsets("offsets", {falling.data(), 4}, 0, 3, 4),
                         "offsets[2] = 2 is below offsets[1] = 3", std::invalid_argument);
    const std::vector<std::uint32_t> beyond = {0, 3, 5};
    CHECK_THROWS_WITH_AS(check_offsets("offsets", {beyond.data(), 3}, 0, 2, 4),
                         "offsets[2] = 5 is beyond the 4 numbers that it points into", std::invalid_argument);
    CHECK_THROWS_WITH_AS(check_below("features", numbers_of(beyond), 5, "rows"),
                         "features holds 5, but there are 5 rows", std::invalid_argument);
    CHECK_THROWS_AS(check_threads(0), std::invalid_argument);
    CHECK_THROWS_AS(check_threads(kMaxThreads + 1), std::invalid_argument);
    const std::vector<RowSource> sources = {{{nullptr}, numbers_of(falling), 0}};
    CHECK_THROWS_WITH_AS(RowPartition(sources, 0, 1), "touched of source 0 is not strictly ascending",
                         std::invalid_argument);
}

TEST_CASE("floats of our own begin on a cache line") {
    const Floats floats = Floats::zeros(17);
    CHECK(reinterpret_cast<std::uintptr_t>(floats.data()) % 64 == 0);
    for (std::size_t i = 0; i < 17; ++i) CHECK(floats.data()[i] == 0.0F);
}
