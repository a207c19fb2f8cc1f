#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lines/line_file.h"
#include "rows/native/lines/parse_result.h"
#include "rows/native/reader.h"

namespace sparsepool::rows {

// Reads text files: a chunk is a piece of one of them. The derived class parses lines.
class LineReader : public RowReader {
  public:
    explicit LineReader(std::vector<std::shared_ptr<const lines::LineFile>> files);

    [[nodiscard]] std::size_t num_chunks() const final { return chunks_.size(); }
    [[nodiscard]] std::string name() const final;
    [[nodiscard]] bool in_file_order() const final;
    void compare_with(stream::ChunkSums sums) final { sums_ = sums; }
    // Makes lines that can't be read skipped lines; without this call such a line ends its chunk. Must be called before
    // any thread reads.
    void skip_damage() { skips_damage_ = true; }
    [[nodiscard]] Read read(std::size_t chunk, const RowShape& shape, stream::RecordBuffer& rows) const final;

  protected:
    // Appends the rows of a piece of a file, up to a fault. A line feed follows the text.
    [[nodiscard]] virtual ParseResult parse(std::size_t file, std::size_t piece, std::string_view text,
                                            const RowShape& shape, stream::RecordBuffer& rows) const = 0;
    [[nodiscard]] virtual const char* column_noun() const = 0;  // what a message calls a byte of a line

  private:
    struct Chunk {
        std::size_t file = 0;
        std::size_t piece = 0;
    };

    // Skips the line with the fault and parses the lines after it, until there is no fault. Returns what was skipped.
    [[nodiscard]] stream::SkippedData parse_after_fault(std::size_t chunk, const lines::Piece& read,
                                                        const RowShape& shape, stream::RecordBuffer& rows,
                                                        ParseResult& parsed) const;
    [[nodiscard]] stream::SourceFault fault_of(std::size_t chunk, const lines::Piece& read,
                                               const TextFault& fault) const;

    std::vector<std::shared_ptr<const lines::LineFile>> files_;
    std::vector<Chunk> chunks_;
    bool skips_damage_ = false;
    stream::ChunkSums sums_;
};

}  // namespace sparsepool::rows
