#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/binpack/file.h"
#include "stream/chunk_sums.h"
#include "stream/record_source.h"

namespace sparsepool::stream {

// The chunks of binpack files, in the order of the files. A file whose list of chunks ends early at a
// damaged header has one chunk more, which is that fault: the stream meets it at its place.
class BinpackSource final : public RecordSource {
  public:
    explicit BinpackSource(std::vector<std::shared_ptr<const BinpackFile>> files);

    // From now on each chunk that is read is compared with its word, of num_chunks(). Before any thread decodes.
    void compare_with(ChunkSums sums) { sums_ = sums; }

    [[nodiscard]] std::size_t num_chunks() const override { return chunks_.size(); }
    [[nodiscard]] std::string name() const override;
    [[nodiscard]] std::size_t together() const override;
    void decode(std::span<ChunkRead> chunks, bool checks, const Appended& appended) const override;

  private:
    struct Chunk {
        const BinpackFile* file = nullptr;
        std::size_t number = 0;  // within the file; the file's number of chunks stands for its damaged header
    };

    // The chunk's bytes, if they are what they should be; else the fault is its answer.
    [[nodiscard]] BinpackFile::Bytes read(ChunkRead& chunk) const;

    std::vector<std::shared_ptr<const BinpackFile>> files_;
    std::vector<Chunk> chunks_;
    ChunkSums sums_;
};

}  // namespace sparsepool::stream
