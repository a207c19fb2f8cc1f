#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "common/crc32c.h"
#include "common/memory/growing_memory.h"
#include "common/parallel.h"
#include "common/simd.h"

using namespace sparsepool;

TEST_CASE("crc32c of the standard's check string, in one piece and in two") {
    const std::string_view text = "123456789";
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
    CHECK(crc32c(bytes, text.size(), 0) == 0xE3069283);
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
        CHECK(crc32c(bytes + cut, text.size() - cut, crc32c(bytes, cut, 0)) == 0xE3069283);
    }
}

TEST_CASE("growing memory keeps what was written when it moves, and its capacity when it is cleared") {
    GrowingMemory<std::uint32_t> memory;
    for (std::uint32_t i = 0; i < 10'000; ++i) {
        *memory.room(1) = i;
        memory.grow(1);
    }
    for (std::uint32_t i = 0; i < 10'000; ++i) REQUIRE(memory.data()[i] == i);
    const std::uint32_t* before = memory.data();
    memory.clear();
    memory.resize_to_overwrite(10'000);
    CHECK(memory.data() == before);
    CHECK(reinterpret_cast<std::uintptr_t>(before) % 64 == 0);
    const std::vector<std::uint32_t> more = {1, 2, 3};
    memory.append(more);
    CHECK(memory.size() == 10'003);
    CHECK(memory.data()[10'002] == 3);
    GrowingMemory<std::uint32_t> other = std::move(memory);
    CHECK(other.data()[10'002] == 3);
    memory.append(more);  // NOLINT(bugprone-use-after-move)
    CHECK(memory.size() == 3);
}

TEST_CASE("borders cut everything, once, at multiples of the unit") {
    for (const std::size_t total : {0U, 1U, 15U, 16U, 1000U}) {
        for (const std::size_t parts : {1U, 3U, 70U}) {
            CHECK(border(total, 16, 0, parts) == 0);
            CHECK(border(total, 16, parts, parts) == total);
            for (std::size_t part = 0; part < parts; ++part) {
                const std::size_t here = border(total, 16, part, parts);
                CHECK(here <= border(total, 16, part + 1, parts));
                CHECK((here % 16 == 0 || here == total));
            }
        }
    }
}

TEST_CASE("every part of a call is run once") {
    std::vector<std::atomic<int>> runs(20);
    run_parts(runs.size(), [&](std::size_t part) { ++runs[part]; });
    for (const auto& count : runs) CHECK(count == 1);
}

TEST_CASE("a level that there is not is refused with those there are, and the level stays") {
    const simd::Level before = simd::level();
    CHECK(simd::levels().front() == simd::Level::kBaseline);
    CHECK_THROWS_WITH_AS(simd::set_level("mmx"),
                         doctest::Contains("SIMD level 'mmx' is not one that this CPU has: baseline"),
                         std::invalid_argument);
    CHECK(simd::level() == before);
    for (const simd::Level level : simd::levels()) {
        simd::set_level(simd::name_of(level));
        CHECK(simd::level() == level);
    }
    simd::set_level(simd::name_of(before));
}
