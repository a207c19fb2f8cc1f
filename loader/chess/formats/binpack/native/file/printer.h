#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "chess/formats/binpack/native/damage.h"
#include "chess/formats/binpack/native/entries/lane.h"

namespace sparsepool::binpack {

// A chunk's entries as text, one line each: FEN, move (UCI), score, ply, result, tab separated.
// The FEN's move number is (ply + 1) / 2 whatever the side to move, since the format has none.
class ChunkPrinter {
  public:
    ChunkPrinter(std::span<const std::uint8_t> payload, std::uint64_t payload_offset);

    // Appends up to `limit` lines and gives back how many; fewer only at the end or at damage.
    std::uint64_t print(std::string& out, std::uint64_t limit);

    [[nodiscard]] std::optional<Damage> damage() const;

  private:
    ChunkState state_;
    std::uint64_t payload_offset_;
};

}  // namespace sparsepool::binpack
