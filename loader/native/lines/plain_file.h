#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "lines/line_file.h"

namespace sparsepool::lines {

// A file that is not compressed. A piece begins with the first line that begins at or after a multiple of 1 MiB.
class PlainFile final : public LineFile {
  public:
    static constexpr std::uint64_t kPiece = 1 << 20;

    using LineFile::LineFile;

    // Finds where pieces begin, with a short read for each. Must be called first.
    [[nodiscard]] std::optional<FileFault> find_pieces(const FileDescriptor& file);

    [[nodiscard]] std::size_t num_pieces() const override { return begins_.size() - 1; }
    [[nodiscard]] std::uint64_t offset(std::size_t piece) const override { return begins_[piece]; }
    [[nodiscard]] bool is_packed() const override { return false; }
    [[nodiscard]] Piece read(std::size_t piece) const override;
    [[nodiscard]] std::optional<std::uint64_t> lines_before(std::size_t piece) const override;
    [[nodiscard]] std::uint64_t whole_size() const override { return whole_size_; }

  private:
    [[nodiscard]] std::optional<FileFault> find_begins(const FileDescriptor& file);
    [[nodiscard]] std::optional<FileFault> find_whole_size(const FileDescriptor& file);
    [[nodiscard]] std::optional<FileFault> find_line(const FileDescriptor& file, std::uint64_t from,
                                                     std::uint64_t& begin) const;

    std::vector<std::uint64_t> begins_;  // of each piece; the file's size last
    std::uint64_t whole_size_ = 0;
    std::unique_ptr<std::atomic<std::uint64_t>[]> counts_;  // lines of each piece plus 1; 0: not counted yet
};

}  // namespace sparsepool::lines
