#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "chess/record.h"
#include "formats/binpack/chain.h"
#include "formats/binpack/damage.h"

namespace sparsepool {

// Decodes a chunk's payload piece by piece, into memory of the caller. Not for two threads at once; any
// number of readers may share a payload.
class ChunkReader {
  public:
    // `payload_offset`: where the payload lies in its file, for what `damage` says.
    ChunkReader(std::span<const std::uint8_t> payload, std::uint64_t payload_offset);

    // Writes up to `capacity` records and gives back how many; fewer only at the end of the payload or at
    // damage. Everything written was well-formed.
    std::size_t read(chess::Record* records, std::size_t capacity);

    [[nodiscard]] std::uint32_t chains() const { return state_.chains; }  // begun so far
    [[nodiscard]] std::optional<Damage> damage() const;

  private:
    binpack::ChunkState state_;
    std::uint64_t payload_offset_;
};

// Appends all entries of a chunk to `out`, in file order. At damage the entries before it have been appended.
std::optional<Damage> decode_chunk(std::span<const std::uint8_t> payload, std::uint64_t payload_offset,
                                   std::vector<chess::Record>& out);

// What a walk's fault means to a user of the file.
std::optional<Damage> damage_of(const binpack::ChunkState& state, std::uint64_t payload_offset);

}  // namespace sparsepool
