#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lines/line_file.h"
#include "rows/native/lines/parse_result.h"
#include "rows/native/reader.h"

namespace sparsepool::rows {

// The pieces of text files, in the order of the files. What a line means is the derived class's business.
class LineReader : public RowReader {
  public:
    explicit LineReader(std::vector<std::shared_ptr<const lines::LineFile>> files);

    [[nodiscard]] std::size_t num_chunks() const final { return chunks_.size(); }
    [[nodiscard]] std::string name() const final;
    [[nodiscard]] bool in_file_order() const final;
    void compare_with(stream::ChunkSums sums) final { sums_ = sums; }
    [[nodiscard]] Read read(std::size_t chunk, const RowShape& shape, stream::RecordBuffer& rows) const final;

  protected:
    // Appends the rows of a piece of a file, up to a fault. The text has a line feed behind it.
    [[nodiscard]] virtual ParseResult parse(std::size_t file, std::size_t piece, std::string_view text,
                                            const RowShape& shape, stream::RecordBuffer& rows) const = 0;
    [[nodiscard]] virtual const char* column_word() const = 0;  // what a message calls a byte of a line

  private:
    struct Chunk {
        std::size_t file = 0;
        std::size_t piece = 0;
    };

    std::vector<std::shared_ptr<const lines::LineFile>> files_;
    std::vector<Chunk> chunks_;
    stream::ChunkSums sums_;
};

}  // namespace sparsepool::rows
