#include "chess/native/files/line_pieces.h"

namespace sparsepool::chess {

OpenedFile LinePieces::open(const std::string& path, std::optional<ExpectedFile> expected, const Codec& codec,
                            const ReadOptions& options) {
    lines::LineFile::Opened opened = lines::LineFile::open(path, expected);
    if (!opened.file) return {nullptr, std::move(opened.fault)};
    const auto file = std::make_shared<LinePieces>(std::move(opened.file), codec, options);
    // A header that is missing, or under which nothing can be read, is a fault of the whole file.
    if (!codec.has_header() || file->num_pieces() == 0) return {file, {}};
    const Piece first = file->read(0);
    file->header_ = codec.header_in(first.bytes);
    std::optional<stream::SourceFault> fault = file->header_.empty() ? first.fault : std::nullopt;
    if (const std::optional<Damage> damage = file->walk(first, options)->damage()) {
        fault = file->fault_of(0, first, *damage);
    }
    if (fault) return {nullptr, {.reason = std::move(fault->reason)}};
    return {file, {}};
}

Piece LinePieces::read(std::size_t piece) const {
    lines::Piece lines = lines_->read(piece);
    lines.text.pop_back();  // the line feed that lines::Piece appends
    return {std::move(lines.text), 0, lines.first_line.value_or(0), std::move(lines.fault)};
}

stream::SourceFault LinePieces::fault_of(std::size_t piece, const Piece& read, const Damage& damage) const {
    const std::optional<std::uint64_t> lines_before = is_packed() ? read.first_unit : lines_->lines_before(piece);
    const std::string line = lines_before ? std::to_string(*lines_before + damage.unit + 1) : "unknown";
    const std::uint64_t offset_in_file = offset(piece) + (is_packed() ? 0 : damage.offset);
    return {path_, offset_in_file, "line " + line + ": " + damage.reason};
}

}  // namespace sparsepool::chess
