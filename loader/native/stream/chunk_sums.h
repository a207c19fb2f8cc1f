#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/crc32c.h"

namespace sparsepool::stream {

// A table of what each chunk held when it was first read, in memory that may outlive this process: a word a chunk, 0 as
// long as it has not been read, else 2^32 + its CRC-32C. Any number of threads may use it.
class ChunkSums {
  public:
    ChunkSums() = default;
    explicit ChunkSums(std::span<std::uint64_t> words) : words_(words) {}

    [[nodiscard]] std::size_t size() const { return words_.size(); }

    // The words of `count` chunks from `first` on; without a table, none.
    [[nodiscard]] ChunkSums part(std::size_t first, std::size_t count) const {
        return words_.empty() ? ChunkSums() : ChunkSums(words_.subspan(first, count));
    }

    // Takes the chunk's sum down, or compares: false if it held other bytes before. Always true without a table.
    // `sum`: of bytes of the chunk that come before these.
    [[nodiscard]] bool agrees(std::size_t chunk, std::span<const std::uint8_t> bytes, std::uint32_t sum = 0) const {
        if (words_.empty()) return true;
        const std::uint64_t word = kRead | crc32c(bytes.data(), bytes.size(), sum);
        std::uint64_t before = 0;
        return std::atomic_ref(words_[chunk]).compare_exchange_strong(before, word, std::memory_order_relaxed) ||
               before == word;
    }

  private:
    static constexpr std::uint64_t kRead = std::uint64_t{1} << 32;

    std::span<std::uint64_t> words_;
};

}  // namespace sparsepool::stream
