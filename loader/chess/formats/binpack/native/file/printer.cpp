#include "chess/formats/binpack/native/file/printer.h"

#include "chess/formats/binpack/native/entries/chain.h"
#include "chess/formats/binpack/native/file/chunk.h"
#include "chess/native/files/printer.h"

namespace sparsepool::binpack {

ChunkPrinter::ChunkPrinter(std::span<const std::uint8_t> payload, std::uint64_t payload_offset)
    : payload_offset_(payload_offset) {
    state_.payload = payload;
}

std::uint64_t ChunkPrinter::print(std::string& out, std::uint64_t limit) {
    char line[chess::kMaxLine];
    std::uint64_t count = 0;
    for (; count < limit && next_entry(state_); ++count) {
        const char* end = chess::write_line(state_.entry, (state_.entry.ply + 1U) / 2, line);
        out.append(line, static_cast<std::size_t>(end - line));
    }
    return count;
}

std::optional<Damage> ChunkPrinter::damage() const { return damage_of(state_, payload_offset_); }

}  // namespace sparsepool::binpack
