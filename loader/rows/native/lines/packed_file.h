#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "rows/native/lines/lines.h"
#include "rows/native/packed/unpacker.h"

namespace sparsepool::rows {

// A compressed file. Piece k has the lines that end in the blocks of compression which begin in bytes [k S, (k + 1) S)
// of the file; so it depends on the file alone. Pieces are decoded in order, by one thread at a time; now and then a
// restart point is kept, from which a piece can be had without all before it.
class PackedFile final : public LineFile {
  public:
    static constexpr std::uint64_t kPiece = 1 << 18;  // S: about 1 MiB of text
    static constexpr std::size_t kPointEvery = 16;    // pieces

    PackedFile(std::string path, std::optional<ExpectedFile> expected, std::uint64_t size, MakeUnpacker make)
        : LineFile(std::move(path), expected, size), make_(make) {}

    [[nodiscard]] std::size_t num_pieces() const override { return (size_ + kPiece - 1) / kPiece; }
    [[nodiscard]] std::uint64_t offset(std::size_t piece) const override { return piece * kPiece; }
    [[nodiscard]] bool is_packed() const override { return true; }
    [[nodiscard]] Piece read(std::size_t piece) const override;
    [[nodiscard]] std::optional<std::uint64_t> lines_before(std::size_t) const override { return std::nullopt; }
    [[nodiscard]] std::uint64_t whole_size() const override { return size_; }

  private:
    struct Point {
        UnpackerState unpacker;
        std::string carried;  // the beginning of a line
        std::uint64_t lines = 0;
    };

    void go_to(std::size_t piece) const;
    [[nodiscard]] Piece decode_next() const;
    void keep_point() const;
    void forget() const;

    MakeUnpacker make_;

    mutable std::mutex mutex_;  // of all below
    mutable std::unique_ptr<Unpacker> unpacker_;
    mutable PackedInput input_{size_};
    mutable std::size_t next_ = 0;  // piece that the unpacker has come to
    mutable std::string carried_;
    mutable std::uint64_t lines_ = 0;
    mutable std::optional<stream::SourceFault> damage_;  // of the piece before, and all from there on
    mutable std::map<std::size_t, Point> points_;
    mutable std::deque<std::pair<std::size_t, Piece>> passed_;  // decoded for a later one; soon asked for
};

}  // namespace sparsepool::rows
