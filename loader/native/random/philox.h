#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011): random
// words as a pure function of a key and a counter. There is no state to carry along, so a choice depends on
// its purpose, never on the thread that draws it or the time (I1).
namespace sparsepool::random {

using Counter = std::array<std::uint32_t, 4>;
using Words = std::array<std::uint32_t, 4>;

struct Key {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
};

// The algorithm's constants: two multipliers, and what is added to the two words of the key after each round.
inline constexpr int kRounds = 10;
inline constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
inline constexpr std::uint32_t kMultiplier2 = 0xCD9E8D57;
inline constexpr std::uint32_t kKeyStepLow = 0x9E3779B9;
inline constexpr std::uint32_t kKeyStepHigh = 0xBB67AE85;

// Ten rounds. In each, words 0 and 2 of the counter are multiplied to 64 bits, and the high words of the products are
// mixed with words 1 and 3 and the key.
[[nodiscard]] constexpr Words philox(Counter counter, Key key) {
    for (int round = 0; round < kRounds; ++round) {
        const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
        const std::uint64_t product2 = std::uint64_t{kMultiplier2} * counter[2];
        const auto low0 = static_cast<std::uint32_t>(product0);
        const auto high0 = static_cast<std::uint32_t>(product0 >> 32);
        const auto low2 = static_cast<std::uint32_t>(product2);
        const auto high2 = static_cast<std::uint32_t>(product2 >> 32);
        counter = {high2 ^ counter[1] ^ key.low, low2, high0 ^ counter[3] ^ key.high, low0};
        key.low += kKeyStepLow;
        key.high += kKeyStepHigh;
    }
    return counter;
}

// What a random choice is for. The numbers are part of what a seed means: add, never change.
enum class Purpose : std::uint32_t {
    kFilter = 1,        // counter: entry, chunk, epoch
    kChunkOrder = 2,    // counter: draw, epoch
    kEntryOrder = 3,    // counter: draw, run, window, epoch
    kSplit = 4,         // counter: group of chunks or blocks (two words), 0 or chunk + 1
    kMixtureOrder = 5,  // counter: draw, pass, component, high word of the pass
};

// The key of one purpose under a user's seed: keys of different purposes have nothing to do with each other.
[[nodiscard]] constexpr Key key_of(std::uint64_t seed, Purpose purpose) {
    const Words words = philox({static_cast<std::uint32_t>(purpose), 0, 0, 0},
                               {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    return {words[0], words[1]};
}

// Scales a random word to 0 .. count - 1. Probabilities differ by count / 2^32 at most.
[[nodiscard]] constexpr std::uint32_t scale(std::uint32_t word, std::uint32_t count) {
    return static_cast<std::uint32_t>(std::uint64_t{word} * count >> 32);
}

// Successive random words under one key. Word 0 of the counter counts.
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

// Permutes items: the shuffle of Fisher and Yates, from the end.
template <class Item>
void shuffle(std::vector<Item>& items, Sequence& draws) {
    for (std::size_t i = items.size(); i > 1; --i) {
        std::swap(items[i - 1], items[draws.below(static_cast<std::uint32_t>(i))]);
    }
}

}  // namespace sparsepool::random
