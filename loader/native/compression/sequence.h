#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/files/descriptor.h"
#include "common/files/identity.h"
#include "compression/units.h"
#include "compression/unpacker.h"
#include "stream/source.h"

namespace sparsepool::packed {

inline constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // of a piece, and so of a unit

// Whole units; or why they can't be had, and those before. Only the last piece may end in a part of one.
struct Piece {
    std::string bytes;
    std::uint64_t begin = 0;       // decoded bytes before them
    std::uint64_t first_unit = 0;  // units before them
    std::optional<stream::SourceFault> fault;
    std::vector<std::uint64_t> ends{};  // of parts that are read one by one; empty: there is one
};

// A compressed file. Piece k has the units that end in the blocks of compression which begin in bytes [k S, (k + 1) S)
// of the file; so it depends on the file alone. Pieces are decoded in order, by one thread at a time; now and then a
// restart point is kept, from which a piece can be had without all before it.
class Sequence {
  public:
    static constexpr std::uint64_t kPiece = 1 << 18;  // S: about 1 MiB of text
    static constexpr std::size_t kPointEvery = 16;    // pieces

    Sequence(std::string path, std::optional<ExpectedFile> expected, std::uint64_t size, MakeUnpacker make,
             const Units& units)
        : path_(std::move(path)), expected_(expected), size_(size), make_(make), units_(units) {}

    [[nodiscard]] std::size_t num_pieces() const { return (size_ + kPiece - 1) / kPiece; }
    [[nodiscard]] Piece read(std::size_t piece) const;

  private:
    struct Point {
        UnpackerState unpacker;
        std::string carried;  // the beginning of a unit
        std::uint64_t begin = 0;
        std::uint64_t units = 0;
    };

    void go_to(std::size_t piece) const;
    [[nodiscard]] Piece decode_next() const;
    void keep_point() const;
    void forget() const;

    const std::string path_;
    const std::optional<ExpectedFile> expected_;
    const std::uint64_t size_;
    const MakeUnpacker make_;
    const Units& units_;

    mutable std::mutex mutex_;  // of all below
    mutable std::unique_ptr<Unpacker> unpacker_;
    mutable PackedInput input_{size_};
    mutable std::size_t next_ = 0;  // piece that the unpacker has come to
    mutable std::string carried_;
    mutable std::uint64_t begin_ = 0;                    // decoded bytes before it, and before what is carried
    mutable std::uint64_t num_units_ = 0;                // likewise
    mutable std::optional<stream::SourceFault> damage_;  // of the piece before, and all from there on
    mutable std::map<std::size_t, Point> points_;
    mutable std::deque<std::pair<std::size_t, Piece>> passed_;  // decoded for a later one; soon asked for
};

}  // namespace sparsepool::packed
