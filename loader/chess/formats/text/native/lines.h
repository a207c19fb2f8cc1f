#pragma once

#include <string>
#include <utility>

#include "chess/native/files/file.h"
#include "rows/native/lines/lines.h"

namespace sparsepool::text {

// A file of lines, plain or compressed, as `LineFile` cuts it.
class LinePieces final : public chess::EntryFile {
  public:
    LinePieces(std::shared_ptr<const rows::LineFile> lines, const chess::Codec& codec, const chess::Demands& demands)
        : EntryFile(lines->path(), lines->expected(), lines->size(), codec, demands), lines_(std::move(lines)) {}

    [[nodiscard]] std::size_t num_pieces() const override { return lines_->num_pieces(); }
    [[nodiscard]] std::uint64_t offset(std::size_t piece) const override { return lines_->offset(piece); }
    [[nodiscard]] bool is_packed() const override { return lines_->is_packed(); }
    [[nodiscard]] chess::Piece read(std::size_t piece) const override;
    [[nodiscard]] std::uint64_t whole_size() const override { return lines_->whole_size(); }
    [[nodiscard]] stream::SourceFault fault_of(std::size_t piece, const chess::Piece& read,
                                               const chess::Damage& damage) const override;

  private:
    std::shared_ptr<const rows::LineFile> lines_;
};

}  // namespace sparsepool::text
