#pragma once

#include <string>

#include "compression/sequence.h"
#include "compression/units.h"
#include "lines/line_file.h"

namespace sparsepool::lines {

class LineUnits final : public Units {
  public:
    [[nodiscard]] const char* word() const override { return "line"; }
    [[nodiscard]] std::size_t whole(std::string_view bytes, std::size_t searched) const override;
    [[nodiscard]] std::uint64_t count(std::string_view whole) const override;
};

// A compressed file.
class PackedFile final : public LineFile {
  public:
    PackedFile(std::string path, std::optional<ExpectedFile> expected, std::uint64_t size, packed::MakeUnpacker make)
        : LineFile(std::move(path), expected, size), sequence_(path_, expected, size, make, lines_) {}

    [[nodiscard]] std::size_t num_pieces() const override { return sequence_.num_pieces(); }
    [[nodiscard]] std::uint64_t offset(std::size_t piece) const override { return piece * packed::Sequence::kPiece; }
    [[nodiscard]] bool is_packed() const override { return true; }
    [[nodiscard]] Piece read(std::size_t piece) const override;
    [[nodiscard]] std::optional<std::uint64_t> lines_before(std::size_t) const override { return std::nullopt; }
    [[nodiscard]] std::uint64_t whole_size() const override { return size_; }

  private:
    LineUnits lines_;
    packed::Sequence sequence_;
};

}  // namespace sparsepool::lines
