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

// Complete units, up to a fault. Only the last piece may end in a part of a unit.
struct Piece {
    std::string bytes;
    std::uint64_t begin = 0;       // decoded bytes before the piece
    std::uint64_t first_unit = 0;  // units before the piece
    std::optional<stream::SourceFault> fault;
    std::vector<std::uint64_t> ends{};  // of parts that are read one by one; empty: there is one part
};

// The units of a compressed file, in pieces.
//
// Piece k has the units that end in those compressed blocks which begin in bytes [k S, (k + 1) S) of the file; so it
// depends on the file alone. One thread at a time decodes pieces, in order. Every kPointEvery pieces a restart point is
// recorded, from which later pieces can be decoded without those before it.
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
    struct RestartPoint {
        UnpackerState unpacker;
        std::string carried;  // the beginning of a unit
        std::uint64_t begin = 0;
        std::uint64_t units = 0;
    };

    void seek(std::size_t piece) const;
    [[nodiscard]] Piece decode_until(std::size_t piece) const;
    [[nodiscard]] Piece decode_next() const;
    void add_restart_point() const;
    void reset() const;

    const std::string path_;
    const std::optional<ExpectedFile> expected_;
    const std::uint64_t size_;
    const MakeUnpacker make_;
    const Units& units_;

    mutable std::mutex mutex_;  // guards all members below
    mutable std::unique_ptr<Unpacker> unpacker_;
    mutable PackedInput input_{size_};
    mutable std::size_t next_ = 0;                             // the piece that is decoded next
    mutable std::string carried_;                              // its first bytes, decoded with the piece before
    mutable std::uint64_t begin_ = 0;                          // decoded bytes before the piece
    mutable std::uint64_t num_units_ = 0;                      // units before the piece
    mutable std::optional<stream::SourceFault> damage_;        // of the piece before; all later pieces have it too
    mutable std::map<std::size_t, RestartPoint> points_;       // by piece
    mutable std::deque<std::pair<std::size_t, Piece>> ready_;  // decoded on the way to a later piece
};

}  // namespace sparsepool::packed
