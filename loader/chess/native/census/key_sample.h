#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sparsepool::chess {

// How many of very many hashes differ, by a sample of bounded memory: the hashes whose lowest bits are 0, as many bits
// as are needed. All occurrences of a hash are in the sample or none is, so the share of those that repeat another is
// that of all, but for chance. What is kept does not depend on the order of the hashes. Not for two threads at once.
class KeySample {
  public:
    static constexpr std::size_t kMost = 1U << 16;  // different ones: the table, 2 MiB, stays in a core's cache

    explicit KeySample(std::size_t most = kMost) : most_(most), table_(std::bit_ceil(2 * most + 2)) {}

    void add(std::uint64_t hash, std::uint64_t times = 1) {
        if ((hash & mask_) != 0) return;
        insert({hash, times});
        while (different_ > most_) thin_out(2 * mask_ + 1);
    }

    void add(const KeySample& other) {
        if (other.mask_ > mask_) thin_out(other.mask_);
        for (const Seen& seen : other.table_) {
            if (seen.times != 0) add(seen.hash, seen.times);
        }
    }

    [[nodiscard]] std::uint64_t one_in() const { return mask_ + 1; }  // hash is in the sample
    [[nodiscard]] std::uint64_t seen() const { return seen_; }        // occurrences in the sample
    [[nodiscard]] std::uint64_t different() const { return different_; }

  private:
    struct Seen {
        std::uint64_t hash = 0;
        std::uint64_t times = 0;  // 0: none
    };

    // By the high bits: the low ones are 0.
    void insert(const Seen& added) {
        const std::size_t last = table_.size() - 1;
        std::size_t slot = added.hash >> 32 & last;
        while (table_[slot].times != 0 && table_[slot].hash != added.hash) slot = (slot + 1) & last;
        different_ += table_[slot].times == 0 ? 1U : 0U;
        table_[slot] = {added.hash, table_[slot].times + added.times};
        seen_ += added.times;
    }

    void thin_out(std::uint64_t mask) {
        mask_ = mask;
        seen_ = different_ = 0;
        const std::vector<Seen> before = std::exchange(table_, std::vector<Seen>(table_.size()));
        for (const Seen& seen : before) {
            if (seen.times != 0 && (seen.hash & mask_) == 0) insert(seen);
        }
    }

    std::size_t most_;
    std::uint64_t mask_ = 0;
    std::uint64_t seen_ = 0;
    std::uint64_t different_ = 0;
    std::vector<Seen> table_;
};

}  // namespace sparsepool::chess
