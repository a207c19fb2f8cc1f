#pragma once

#include <array>
#include <cstdint>

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011): random
// words as a pure function of a key and a counter. There is no state to carry along, so a choice depends on
// what it is for, never on the thread that draws it or the time (I1).
namespace sparsepool::random {

using Counter = std::array<std::uint32_t, 4>;
using Words = std::array<std::uint32_t, 4>;

struct Key {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
};

[[nodiscard]] constexpr Words philox(Counter counter, Key key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t first = std::uint64_t{0xD2511F53} * counter[0];
        const std::uint64_t second = std::uint64_t{0xCD9E8D57} * counter[2];
        counter = {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key.low, static_cast<std::uint32_t>(second),
                   static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key.high, static_cast<std::uint32_t>(first)};
        key.low += 0x9E3779B9;
        key.high += 0xBB67AE85;
    }
    return counter;
}

// What a random choice is for. The numbers are part of what a seed means: add, never change.
enum class Purpose : std::uint32_t {
    kFilter = 1,        // counter: entry, chunk, epoch
    kChunkOrder = 2,    // counter: draw, epoch
    kEntryOrder = 3,    // counter: draw, run, window, epoch
    kSplit = 4,         // counter: run of places (two words), 0 or chunk + 1
    kMixtureOrder = 5,  // counter: draw, pass, component, high word of the pass
};

// The key of one purpose under a user's seed: keys of different purposes have nothing to do with each other.
[[nodiscard]] constexpr Key key_of(std::uint64_t seed, Purpose purpose) {
    const Words words = philox({static_cast<std::uint32_t>(purpose), 0, 0, 0},
                               {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    return {words[0], words[1]};
}

// 0 .. count - 1 from a word, which is scaled: numbers are uneven by count / 2^32 at most.
[[nodiscard]] constexpr std::uint32_t scale(std::uint32_t word, std::uint32_t count) {
    return static_cast<std::uint32_t>(std::uint64_t{word} * count >> 32);
}

// Successive words under one key; counter word 0 counts.
class Sequence {
  public:
    constexpr Sequence(Key key, std::uint32_t second, std::uint32_t third = 0, std::uint32_t fourth = 0)
        : key_(key), counter_{0, second, third, fourth} {}

    [[nodiscard]] constexpr std::uint32_t word() {
        if (used_ == words_.size()) {
            words_ = philox(counter_, key_);
            ++counter_[0];
            used_ = 0;
        }
        return words_[used_++];
    }

    [[nodiscard]] constexpr std::uint32_t below(std::uint32_t count) { return scale(word(), count); }

  private:
    Key key_;
    Counter counter_;
    Words words_{};
    std::size_t used_ = 4;
};

}  // namespace sparsepool::random
