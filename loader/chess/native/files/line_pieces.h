#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chess/native/files/file.h"
#include "lines/line_file.h"
#include "lines/packed_file.h"

namespace sparsepool::chess {

// A file of lines, plain or compressed, as `LineFile` cuts it.
class LinePieces final : public EntryFile {
  public:
    LinePieces(std::shared_ptr<const lines::LineFile> lines, const Codec& codec, const ReadOptions& options)
        : EntryFile(lines->path(), lines->expected(), lines->size(), codec, options), lines_(std::move(lines)) {}

    // The file, opened as Codec::open does it. One whose header is damage is none.
    [[nodiscard]] static OpenedFile open(const std::string& path, std::optional<ExpectedFile> expected,
                                         const Codec& codec, const ReadOptions& options);

    [[nodiscard]] std::size_t num_pieces() const override { return lines_->num_pieces(); }
    [[nodiscard]] std::uint64_t offset(std::size_t piece) const override { return lines_->offset(piece); }
    [[nodiscard]] bool is_packed() const override { return lines_->is_packed(); }
    [[nodiscard]] Piece read(std::size_t piece) const override;
    [[nodiscard]] std::uint64_t whole_size() const override { return lines_->whole_size(); }
    [[nodiscard]] stream::SourceFault fault_of(std::size_t piece, const Piece& read,
                                               const Damage& damage) const override;

  private:
    std::shared_ptr<const lines::LineFile> lines_;
};

// A format whose units are lines, each read alone.
class LineCodec : public Codec {
  public:
    [[nodiscard]] const Units& units() const override { return units_; }
    [[nodiscard]] bool has_lines() const override { return true; }
    [[nodiscard]] OpenedFile open(const std::string& path, std::optional<ExpectedFile> expected,
                                  const ReadOptions& options,
                                  std::optional<std::vector<std::uint64_t>>) const override {
        return LinePieces::open(path, expected, *this, options);
    }

  private:
    lines::LineUnits units_;
};

}  // namespace sparsepool::chess
