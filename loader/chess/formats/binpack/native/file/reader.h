#pragma once

#include <memory>
#include <string>
#include <vector>

#include "chess/formats/binpack/native/entries/lane.h"
#include "chess/formats/binpack/native/file/file.h"
#include "chess/native/reader.h"

namespace sparsepool::binpack {

// The chunks of binpack files, in the order of the files. A file whose list of chunks ends early at a damaged header
// has one chunk more, which is that fault: the stream meets it at its place.
class Reader final : public chess::PositionReader {
  public:
    explicit Reader(std::vector<std::shared_ptr<const File>> files);

    [[nodiscard]] std::size_t num_chunks() const override { return chunks_.size(); }
    [[nodiscard]] std::string name() const override;
    [[nodiscard]] std::size_t together() const override { return kMaxLanes; }
    void compare_with(stream::ChunkSums sums) override { sums_ = sums; }
    void read(std::span<Reading> readings, bool checks, const Appended& appended) const override;

  private:
    struct Chunk {
        const File* file = nullptr;
        std::size_t number = 0;  // within the file; the file's number of chunks stands for its damaged header
    };

    // The chunk's bytes, if they are what they should be; else the fault is its answer.
    [[nodiscard]] File::Bytes bytes_of(Reading& reading) const;

    std::vector<std::shared_ptr<const File>> files_;
    std::vector<Chunk> chunks_;
    stream::ChunkSums sums_;
};

}  // namespace sparsepool::binpack
