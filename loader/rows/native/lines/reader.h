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
    // From now on a line that can't be read is left out; else it ends its chunk. Before any thread reads.
    void leave_out_damage() { leaves_out_damage_ = true; }
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
    // Parses the lines behind the one with the fault, and so on: at the end there is none. What was left out.
    [[nodiscard]] stream::LeftOut parse_on(std::size_t chunk, const lines::Piece& read, const RowShape& shape,
                                           stream::RecordBuffer& rows, ParseResult& parsed) const;
    [[nodiscard]] stream::SourceFault fault_of(std::size_t chunk, const lines::Piece& read,
                                               const TextFault& fault) const;

    std::vector<Chunk> chunks_;
    bool leaves_out_damage_ = false;
    stream::ChunkSums sums_;
};

}  // namespace sparsepool::rows
