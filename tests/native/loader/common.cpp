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

namespace {
// RFC 3720 B.4, bit by bit.
std::uint32_t crc32c_by_bits(const std::vector<std::uint8_t>& data) {
    std::uint32_t value = 0xFFFFFFFF;
    for (const std::uint8_t byte : data) {
        value ^= byte;
        for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78U : 0U);
    }
    return ~value;
}
}  // namespace

TEST_CASE("crc32c of the standard's examples") {
    const std::string_view text = "123456789";
    CHECK(crc32c(reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), 0) == 0xE3069283);
    CHECK(crc32c(std::vector<std::uint8_t>(32).data(), 32, 0) == 0x8A9136AA);  // RFC 3720 B.4
    CHECK(crc32c(nullptr, 0, 0) == 0);
}

TEST_CASE("crc32c of any length, in one piece and in two") {
    for (const std::size_t length : {1, 7, 8, 9, 63, 1000}) {
        std::vector<std::uint8_t> data(length);
        for (std::size_t i = 0; i < length; ++i) data[i] = static_cast<std::uint8_t>((length + i) * 2654435761U >> 24);
        const std::uint32_t whole = crc32c_by_bits(data);
        for (std::size_t cut = 0; cut <= length; ++cut) {
            CHECK(crc32c(data.data() + cut, length - cut, crc32c(data.data(), cut, 0)) == whole);
        }
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
