#include <doctest/doctest.h>

#include <vector>

#include "common/simd.h"
#include "random/philox.h"
#include "random/philox_many.h"

using namespace sparsepool;
using namespace sparsepool::random;

// Of Random123's known answers, kat_vectors, philox4x32 with 10 rounds.
TEST_CASE("philox gives the authors' known answers") {
    CHECK(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
    CHECK(philox({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {0xFFFFFFFF, 0xFFFFFFFF}) ==
          Words{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD});
    CHECK(philox({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}) ==
          Words{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});
}

TEST_CASE("many counters at once give the words of each, at every level") {
    const Key key = key_of(7, Purpose::kFilter);
    const simd::Level before = simd::level();
    for (const simd::Level level : simd::levels()) {
        simd::set_level(simd::name_of(level));
        for (const std::size_t count : {0U, 1U, 15U, 16U, 33U}) {
            std::vector<std::uint32_t> words(padded_words(count));
            philox_many({0xFFFFFFF8, 1, 2, 3}, key, count, words.data());
            for (std::uint32_t i = 0; i < count; ++i) {
                const Words expected = philox({0xFFFFFFF8 + i, 1, 2, 3}, key);
                for (std::size_t word = 0; word < 4; ++word) REQUIRE(words[4 * i + word] == expected[word]);
            }
        }
    }
    simd::set_level(simd::name_of(before));
}

TEST_CASE("a sequence is the words of successive counters") {
    const Key key = key_of(1, Purpose::kChunkOrder);
    Sequence sequence(key, 5, 6, 7);
    for (std::uint32_t counter = 0; counter < 3; ++counter) {
        for (const std::uint32_t word : philox({counter, 5, 6, 7}, key)) CHECK(sequence.word() == word);
    }
    for (int i = 0; i < 1000; ++i) REQUIRE(sequence.below(10) < 10);
}
