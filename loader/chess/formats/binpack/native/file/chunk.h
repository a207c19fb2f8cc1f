#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "chess/formats/binpack/native/damage.h"
#include "chess/formats/binpack/native/entries/lane.h"
#include "chess/native/record.h"

namespace sparsepool::binpack {

// Decodes a chunk's payload piece by piece, into memory of the caller. Not for two threads at once; any
// number of readers may share a payload.
class ChunkReader {
  public:
    // `payload_offset`: where the payload lies in its file, for what `damage` says.
    // `left_out`: where illegal positions are noted if that is demanded of them.
    ChunkReader(std::span<const std::uint8_t> payload, std::uint64_t payload_offset, const chess::Demands& demands = {},
                chess::IllegalTally* left_out = nullptr);

    // Writes up to `capacity` records and gives back how many; fewer only at the end of the payload or at
    // damage. Everything written was well-formed.
    std::size_t read(chess::Record* records, std::size_t capacity);

    [[nodiscard]] std::uint32_t chains() const { return lane_.state.chains; }  // begun so far
    [[nodiscard]] std::optional<Damage> damage() const;

    // Where `read_chunks` writes next: room for as many records as are asked for. It moves on with what is written.
    void set_output(chess::Record* records) { lane_.out = records; }
    [[nodiscard]] chess::Record* output() const { return lane_.out; }
    [[nodiscard]] bool at_end() const { return lane_.at_end; }  // of the payload, or at damage

    // Reads up to `count` records with each of up to kMaxLanes readers; fewer if one of them comes to its end. Several
    // at once are faster than one after another (lanes.h). Without `checks`, the flag kInCheck is never set.
    static void read_chunks(std::span<ChunkReader* const> readers, std::size_t count, bool checks);

  private:
    Lane lane_;
    std::uint64_t payload_offset_;
};

// Appends all entries of a chunk to `out`, in file order. At damage the entries before it have been appended.
std::optional<Damage> decode_chunk(std::span<const std::uint8_t> payload, std::uint64_t payload_offset,
                                   std::vector<chess::Record>& out);

// The entries of a chunk up to damage, and what is left out of them.
struct Judged {
    std::uint64_t entries = 0;
    chess::IllegalTally illegal;
    std::optional<Damage> damage;
};

[[nodiscard]] Judged judge_chunk(std::span<const std::uint8_t> payload, std::uint64_t payload_offset);

// What a walk's fault means to a user of the file.
std::optional<Damage> damage_of(const ChunkState& state, std::uint64_t payload_offset);

}  // namespace sparsepool::binpack
