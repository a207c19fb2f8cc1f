#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "chess/native/files/file.h"
#include "chess/native/reader.h"

namespace sparsepool::chess {

// The pieces of files of one format, in the order of the files.
class FileReader final : public PositionReader {
  public:
    explicit FileReader(std::vector<std::shared_ptr<const EntryFile>> files);

    [[nodiscard]] std::size_t num_chunks() const override { return chunks_.size(); }
    [[nodiscard]] std::string name() const override;
    [[nodiscard]] std::size_t chunks_per_task() const override {
        return files_.empty() ? 1 : files_.front()->codec().chunks_per_task();
    }
    [[nodiscard]] bool in_file_order() const override;
    void compare_with(stream::ChunkSums sums) override { sums_ = sums; }
    void read(std::span<Reading> readings, bool checks, const Appended& appended) const override;

  private:
    struct Chunk {
        const EntryFile* file = nullptr;
        std::size_t piece = 0;
    };

    struct OpenChunk;

    // Reads a chunk's bytes and begins its walk. Returns null if its bytes have changed; that is the reading's fault
    // then.
    [[nodiscard]] std::unique_ptr<OpenChunk> open(Reading& reading, std::size_t index) const;
    void read_together(std::span<Reading> readings, std::size_t first, bool checks, const Appended& appended) const;
    void read_blocks(std::span<Reading> readings, std::span<std::unique_ptr<OpenChunk>> open_chunks, bool checks,
                     const Appended& appended) const;
    void close(Reading& reading, OpenChunk& chunk) const;

    std::vector<std::shared_ptr<const EntryFile>> files_;
    std::vector<Chunk> chunks_;
    // Chunks in which nothing was wrong. Checking them again would cost a tenth of reading records.
    std::unique_ptr<std::atomic<bool>[]> good_;
    stream::ChunkSums sums_;
};

}  // namespace sparsepool::chess
