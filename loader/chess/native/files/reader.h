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

    struct Open;

    // What is there to be read; else the fault is the reading's.
    [[nodiscard]] std::unique_ptr<Open> open(Reading& reading) const;
    void read_together(std::span<Reading> readings, std::size_t first, bool checks, const Appended& appended) const;
    void close(Reading& reading, Open& open) const;

    std::vector<std::shared_ptr<const EntryFile>> files_;
    std::vector<Chunk> chunks_;
    // Chunks in which nothing was wrong: judging again costs a tenth of reading records, and finds nothing.
    std::unique_ptr<std::atomic<bool>[]> good_;
    stream::ChunkSums sums_;
};

}  // namespace sparsepool::chess
