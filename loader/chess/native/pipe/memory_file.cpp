#include "chess/native/pipe/memory_file.h"

#include "chess/native/files/unit_file.h"

namespace sparsepool::chess {
namespace {

constexpr std::uint64_t kPiece = PlainUnitFile::kPiece;

// Returns the bytes of the units of a piece: up to the first unit that ends at or behind 1 MiB; 0 if there is none.
std::size_t measure_units(const ScannedUnits& units, std::string_view bytes) {
    std::size_t end = units.find_end(bytes, 0);
    while (end != std::string_view::npos && end < kPiece) end = units.find_end(bytes, end);
    return end == std::string_view::npos ? 0 : end;
}

// Returns the bytes of the lines of a piece; 0 if its end is not among them. A piece begins with the first line that
// begins in its own MiB of the file. `begin`: bytes of the file before these.
std::size_t measure_lines(std::string_view bytes, std::uint64_t begin) {
    const std::uint64_t next_mib = (begin / kPiece + 1) * kPiece;
    const std::uint64_t search_from = next_mib - 1 - begin;
    if (search_from >= bytes.size()) return 0;
    const std::size_t line_feed = bytes.find('\n', search_from);
    return line_feed == std::string_view::npos ? 0 : line_feed + 1;
}

}  // namespace

stream::SourceFault MemoryFile::fault_of(std::size_t, const Piece& read, const Damage& damage) const {
    return {path_, read.begin + damage.offset, unit_prefix(read.first_unit + damage.unit) + damage.reason};
}

std::shared_ptr<const EntryFile> Codec::open_in_memory(std::string name, const ReadOptions& options, std::string bytes,
                                                       std::uint64_t begin, std::uint64_t first_unit,
                                                       std::string header) const {
    return std::make_shared<MemoryFile>(std::move(name), *this, options, std::move(bytes), begin, first_unit,
                                        std::move(header));
}

std::size_t Codec::first_piece(std::string_view bytes, std::uint64_t begin, bool last) const {
    std::size_t end = 0;  // 0: more bytes are needed
    if (unit_bytes() != 0) {
        const std::size_t piece = kPiece / unit_bytes() * unit_bytes();
        end = bytes.size() >= piece ? piece : 0;
    } else if (scanned_units() != nullptr) {
        end = measure_units(*scanned_units(), bytes);
    } else {
        end = measure_lines(bytes, begin);
    }
    if (end != 0 || !last) return end;
    const std::size_t whole = has_lines() ? 0 : units().whole(bytes, 0);
    return whole != 0 ? whole : bytes.size();
}

}  // namespace sparsepool::chess
