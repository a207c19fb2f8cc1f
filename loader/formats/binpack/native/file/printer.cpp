#include "formats/binpack/native/file/printer.h"

#include <charconv>

#include "chess/native/board/fen.h"
#include "formats/binpack/native/entries/chain.h"
#include "formats/binpack/native/file/chunk.h"

namespace sparsepool::binpack {
namespace {

constexpr std::size_t kMaxLine = chess::kMaxFen + chess::kMaxUci + 32;

char* write_field(int number, char* out) {
    *out++ = '\t';
    return std::to_chars(out, out + 8, number).ptr;
}

char* write_line(const chess::Entry& entry, char* out) {
    out = chess::write_fen(entry.position, (entry.ply + 1U) / 2, out);
    *out++ = '\t';
    out = chess::write_uci(entry.move, out);
    out = write_field(entry.score, out);
    out = write_field(entry.ply, out);
    out = write_field(entry.result, out);
    *out++ = '\n';
    return out;
}

}  // namespace

ChunkPrinter::ChunkPrinter(std::span<const std::uint8_t> payload, std::uint64_t payload_offset)
    : payload_offset_(payload_offset) {
    state_.payload = payload;
}

std::uint64_t ChunkPrinter::print(std::string& out, std::uint64_t limit) {
    char line[kMaxLine];
    std::uint64_t count = 0;
    for (; count < limit && next_entry(state_); ++count) {
        const char* end = write_line(state_.entry, line);
        out.append(line, static_cast<std::size_t>(end - line));
    }
    return count;
}

std::optional<Damage> ChunkPrinter::damage() const { return damage_of(state_, payload_offset_); }

}  // namespace sparsepool::binpack
