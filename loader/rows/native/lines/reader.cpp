#include "rows/native/lines/reader.h"

#include <algorithm>
#include <span>
#include <utility>

namespace sparsepool::rows {

using stream::SourceFault;

LineReader::LineReader(std::vector<std::shared_ptr<const lines::LineFile>> files) : files_(std::move(files)) {
    for (std::size_t file = 0; file < files_.size(); ++file) {
        for (std::size_t piece = 0; piece < files_[file]->num_pieces(); ++piece) chunks_.push_back({file, piece});
    }
}

std::string LineReader::name() const {
    if (files_.empty()) return "no file";
    const std::string more = files_.size() == 1 ? "" : " and " + std::to_string(files_.size() - 1) + " more";
    return files_.front()->path() + more;
}

bool LineReader::in_file_order() const {
    return std::ranges::any_of(files_, [](const auto& file) { return file->is_packed(); });
}

RowReader::Read LineReader::read(std::size_t chunk, const RowShape& shape, stream::RecordBuffer& rows) const {
    const auto [index, piece] = chunks_[chunk];
    const lines::LineFile& file = *files_[index];
    lines::Piece read = file.read(piece);
    const bool had = !read.fault || read.fault->kind == SourceFault::Kind::kDamaged;
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(read.text.data()), read.lines().size());
    if (had && !sums_.agrees(chunk, bytes)) {
        return {0, SourceFault{file.path(), file.offset(piece),
                               "the lines from here on have other bytes than when they were read first",
                               SourceFault::Kind::kChanged}};
    }
    ParseResult parsed = parse(index, piece, read.lines(), shape, rows);
    if (!parsed.fault) return {parsed.rows, std::move(read.fault)};
    const std::optional<std::uint64_t> before = read.first_line ? read.first_line : file.lines_before(piece);
    std::string place = "line " + (before ? std::to_string(*before + parsed.fault->line + 1) : "unknown");
    if (parsed.fault->column) {
        place += std::string(", ") + column_word() + " " + std::to_string(*parsed.fault->column + 1);
    }
    return {parsed.rows, SourceFault{file.path(), std::nullopt, place + ": " + parsed.fault->reason}};
}

}  // namespace sparsepool::rows
