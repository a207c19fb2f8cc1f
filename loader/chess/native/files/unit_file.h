#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chess/native/files/file.h"

namespace sparsepool::chess {

// A file of records or games that is not compressed. Pieces have about 1 MiB; what is no whole unit at the end of the
// file is one of its own.
class PlainUnitFile final : public EntryFile {
  public:
    static constexpr std::uint64_t kPiece = 1 << 20;

    using EntryFile::EntryFile;

    // Finds where pieces begin: of records of one size by arithmetic, of others by `borders` or by reading the file.
    [[nodiscard]] std::optional<FileFault> find_pieces(const FileDescriptor& file,
                                                       std::optional<std::vector<std::uint64_t>> borders);

    [[nodiscard]] std::size_t num_pieces() const override { return begins_.size() - 1; }
    [[nodiscard]] std::uint64_t offset(std::size_t piece) const override { return begins_[piece]; }
    [[nodiscard]] bool is_packed() const override { return false; }
    [[nodiscard]] Piece read(std::size_t piece) const override;
    [[nodiscard]] std::uint64_t whole_size() const override { return whole_size_; }
    [[nodiscard]] stream::SourceFault fault_of(std::size_t piece, const Piece& read,
                                               const Damage& damage) const override;

    // Where pieces of whole units begin, and where the last one ends.
    [[nodiscard]] std::vector<std::uint64_t> borders() const;

  private:
    [[nodiscard]] std::optional<FileFault> scan_pieces(const FileDescriptor& file);
    [[nodiscard]] std::size_t add_pieces(std::string_view bytes, std::uint64_t begin);

    std::vector<std::uint64_t> begins_;  // of each piece; the size last
    std::uint64_t whole_size_ = 0;
};

// A compressed file of records or games.
class PackedUnitFile final : public EntryFile {
  public:
    PackedUnitFile(std::string path, std::optional<ExpectedFile> expected, std::uint64_t size, const Codec& codec,
                   const ReadOptions& options, packed::MakeUnpacker make)
        : EntryFile(std::move(path), expected, size, codec, options),
          sequence_(path_, expected, size, make, codec.units()) {}

    [[nodiscard]] std::size_t num_pieces() const override { return sequence_.num_pieces(); }
    [[nodiscard]] std::uint64_t offset(std::size_t piece) const override { return piece * packed::Sequence::kPiece; }
    [[nodiscard]] bool is_packed() const override { return true; }
    [[nodiscard]] Piece read(std::size_t piece) const override { return sequence_.read(piece); }
    [[nodiscard]] std::uint64_t whole_size() const override { return size_; }
    [[nodiscard]] stream::SourceFault fault_of(std::size_t piece, const Piece& read,
                                               const Damage& damage) const override;

  private:
    packed::Sequence sequence_;
};

}  // namespace sparsepool::chess
