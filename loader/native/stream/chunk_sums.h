#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/crc32c.h"

namespace sparsepool::stream {

// The checksums that chunks had when they were first read, in shared memory that may outlive this process. One word for
// each chunk: 0 until the chunk is read, then 2^32 + its CRC-32C. Any number of threads may use the table.
class ChunkSums {
  public:
    ChunkSums() = default;  // no table: every chunk passes
    explicit ChunkSums(std::span<std::uint64_t> words) : words_(words) {}

    [[nodiscard]] std::size_t size() const { return words_.size(); }

    // The words of `count` chunks from `first` on. Without a table there are none.
    [[nodiscard]] ChunkSums subrange(std::size_t first, std::size_t count) const {
        if (words_.empty()) return {};
        return ChunkSums(words_.subspan(first, count));
    }

    // Records the chunk's checksum if this is its first read, else compares: false if the chunk held other bytes
    // before. `sum`: the checksum of the chunk's bytes that come before these.
    [[nodiscard]] bool record_or_verify(std::size_t chunk, std::span<const std::uint8_t> bytes,
                                        std::uint32_t sum = 0) const {
        if (words_.empty()) return true;
        const std::uint64_t word = kWasRead | crc32c(bytes.data(), bytes.size(), sum);
        std::uint64_t recorded = 0;
        const bool is_first_read =
            std::atomic_ref(words_[chunk]).compare_exchange_strong(recorded, word, std::memory_order_relaxed);
        return is_first_read || recorded == word;
    }

  private:
    static constexpr std::uint64_t kWasRead = std::uint64_t{1} << 32;

    std::span<std::uint64_t> words_;
};

}  // namespace sparsepool::stream
