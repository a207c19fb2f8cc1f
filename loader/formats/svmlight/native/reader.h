#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/svmlight/native/file/lines.h"
#include "rows/native/reader.h"

namespace sparsepool::svmlight {

// The pieces of svmlight files, in the order of the files.
class Reader final : public rows::RowReader {
  public:
    explicit Reader(std::vector<std::shared_ptr<const LineFile>> files);

    [[nodiscard]] std::size_t num_chunks() const override { return chunks_.size(); }
    [[nodiscard]] std::string name() const override;
    [[nodiscard]] bool in_file_order() const override;
    void compare_with(stream::ChunkSums sums) override { sums_ = sums; }
    [[nodiscard]] Read read(std::size_t chunk, const rows::RowShape& shape, stream::RecordBuffer& rows) const override;

  private:
    struct Chunk {
        const LineFile* file = nullptr;
        std::size_t piece = 0;
    };

    std::vector<std::shared_ptr<const LineFile>> files_;
    std::vector<Chunk> chunks_;
    stream::ChunkSums sums_;
};

}  // namespace sparsepool::svmlight
