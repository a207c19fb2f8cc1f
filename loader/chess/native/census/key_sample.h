#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sparsepool::chess {

// Estimates how many of very many hashes are distinct, by a sample of bounded memory: the hashes whose lowest bits are
// 0, as many bits as necessary (adaptive sampling). All occurrences of a hash are in the sample or none, so its share
// of repeated hashes is that of all hashes, but for chance. The sample does not depend on the order of the hashes. Not
// for two threads at once.
class KeySample {
  public:
    static constexpr std::size_t kMost = 1U << 16;  // distinct hashes: the table, 2 MiB, stays in a core's cache

    explicit KeySample(std::size_t max_distinct = kMost)
        : max_distinct_(max_distinct), table_(std::bit_ceil(2 * max_distinct + 2)) {}

    void add(std::uint64_t hash, std::uint64_t times = 1) {
        if ((hash & mask_) != 0) return;
        insert({hash, times});
        while (distinct_ > max_distinct_) thin_out(2 * mask_ + 1);
    }

    void add(const KeySample& other) {
        if (other.mask_ > mask_) thin_out(other.mask_);
        for (const Slot& slot : other.table_) {
            if (slot.times != 0) add(slot.hash, slot.times);
        }
    }

    [[nodiscard]] std::uint64_t one_in() const { return mask_ + 1; }          // one of so many hashes is in the sample
    [[nodiscard]] std::uint64_t occurrences() const { return occurrences_; }  // of hashes in the sample
    [[nodiscard]] std::uint64_t distinct() const { return distinct_; }        // hashes in the sample

  private:
    struct Slot {
        std::uint64_t hash = 0;
        std::uint64_t times = 0;  // 0: free
    };

    // Inserts a hash by linear probing, from its high bits on: the low bits are 0.
    void insert(const Slot& added) {
        const std::size_t index_mask = table_.size() - 1;
        std::size_t index = added.hash >> 32 & index_mask;
        while (table_[index].times != 0 && table_[index].hash != added.hash) index = (index + 1) & index_mask;
        if (table_[index].times == 0) ++distinct_;
        table_[index] = {added.hash, table_[index].times + added.times};
        occurrences_ += added.times;
    }

    // Keeps only the hashes that are 0 under a larger mask.
    void thin_out(std::uint64_t mask) {
        mask_ = mask;
        occurrences_ = 0;
        distinct_ = 0;
        const std::vector<Slot> old_table = std::exchange(table_, std::vector<Slot>(table_.size()));
        for (const Slot& slot : old_table) {
            if (slot.times != 0 && (slot.hash & mask_) == 0) insert(slot);
        }
    }

    std::size_t max_distinct_;
    std::uint64_t mask_ = 0;
    std::uint64_t occurrences_ = 0;
    std::uint64_t distinct_ = 0;
    std::vector<Slot> table_;
};

}  // namespace sparsepool::chess
