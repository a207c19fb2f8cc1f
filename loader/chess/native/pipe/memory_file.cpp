#include "chess/native/pipe/memory_file.h"

#include "chess/native/files/unit_file.h"

namespace sparsepool::chess {
namespace {

constexpr std::uint64_t kPiece = PlainUnitFile::kPiece;

std::size_t units_of_a_piece(const ScannedUnits& units, std::string_view bytes) {
    std::size_t end = units.find_end(bytes, 0);
    while (end != std::string_view::npos && end < kPiece) end = units.find_end(bytes, end);
    return end == std::string_view::npos ? 0 : end;
}

// A piece begins with the first line that begins in its own MiB of the file.
std::size_t lines_of_a_piece(std::string_view bytes, std::uint64_t begin) {
    const std::uint64_t searched = (begin / kPiece + 1) * kPiece - 1 - begin;
    return searched < bytes.size() ? bytes.find('\n', searched) + 1 : 0;  // npos + 1 is 0
}

}  // namespace

stream::SourceFault MemoryFile::fault_of(std::size_t, const Piece& read, const Damage& damage) const {
    return {path_, read.begin + damage.offset, describe(read.first_unit + damage.unit) + damage.reason};
}

std::shared_ptr<const EntryFile> Codec::open_in_memory(std::string name, const ReadOptions& options, std::string bytes,
                                                       std::uint64_t begin, std::uint64_t first_unit,
                                                       std::string header) const {
    return std::make_shared<MemoryFile>(std::move(name), *this, options, std::move(bytes), begin, first_unit,
                                        std::move(header));
}

std::size_t Codec::first_piece(std::string_view bytes, std::uint64_t begin, bool last) const {
    std::size_t end = 0;
    if (const std::size_t unit = unit_bytes()) {
        const std::size_t piece = kPiece / unit * unit;
        end = bytes.size() >= piece ? piece : 0;
    } else if (const ScannedUnits* scanned = scanned_units()) {
        end = units_of_a_piece(*scanned, bytes);
    } else {
        end = lines_of_a_piece(bytes, begin);
    }
    if (end != 0 || !last) return end;
    const std::size_t whole = has_lines() ? 0 : units().whole(bytes, 0);
    return whole != 0 ? whole : bytes.size();
}

}  // namespace sparsepool::chess
