#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "chess/native/files/file.h"
#include "rows/native/lines/lines.h"

namespace sparsepool::chess {

class TextLines final : public Units {
  public:
    [[nodiscard]] const char* word() const override { return "line"; }
    [[nodiscard]] std::size_t whole(std::string_view bytes, std::size_t) const override {
        return bytes.find_last_of('\n') + 1;  // npos + 1 is 0
    }
    [[nodiscard]] std::uint64_t count(std::string_view whole) const override {
        return static_cast<std::uint64_t>(std::ranges::count(whole, '\n'));
    }
};

// A file of lines, plain or compressed, as `LineFile` cuts it.
class LinePieces final : public EntryFile {
  public:
    LinePieces(std::shared_ptr<const rows::LineFile> lines, const Codec& codec, const Demands& demands)
        : EntryFile(lines->path(), lines->expected(), lines->size(), codec, demands), lines_(std::move(lines)) {}

    // The file, opened as Codec::open does it. One whose header is damage is none.
    [[nodiscard]] static OpenedFile open(const std::string& path, std::optional<ExpectedFile> expected,
                                         const Codec& codec, const Demands& demands);

    [[nodiscard]] std::size_t num_pieces() const override { return lines_->num_pieces(); }
    [[nodiscard]] std::uint64_t offset(std::size_t piece) const override { return lines_->offset(piece); }
    [[nodiscard]] bool is_packed() const override { return lines_->is_packed(); }
    [[nodiscard]] Piece read(std::size_t piece) const override;
    [[nodiscard]] std::uint64_t whole_size() const override { return lines_->whole_size(); }
    [[nodiscard]] stream::SourceFault fault_of(std::size_t piece, const Piece& read,
                                               const Damage& damage) const override;

  private:
    std::shared_ptr<const rows::LineFile> lines_;
};

}  // namespace sparsepool::chess
