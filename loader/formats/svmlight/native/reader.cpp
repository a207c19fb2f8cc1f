#include "formats/svmlight/native/reader.h"

#include <algorithm>
#include <span>
#include <utility>

#include "formats/svmlight/native/text/parser.h"

namespace sparsepool::svmlight {

using stream::SourceFault;

Reader::Reader(std::vector<std::shared_ptr<const LineFile>> files) : files_(std::move(files)) {
    for (const auto& file : files_) {
        for (std::size_t piece = 0; piece < file->num_pieces(); ++piece) chunks_.push_back({file.get(), piece});
    }
}

std::string Reader::name() const {
    if (files_.empty()) return "no file";
    const std::string more = files_.size() == 1 ? "" : " and " + std::to_string(files_.size() - 1) + " more";
    return files_.front()->path() + more;
}

bool Reader::in_file_order() const {
    return std::ranges::any_of(files_, [](const auto& file) { return file->is_packed(); });
}

rows::RowReader::Read Reader::read(std::size_t chunk, const rows::RowShape& shape, stream::RecordBuffer& rows) const {
    const auto [file, piece] = chunks_[chunk];
    Piece read = file->read(piece);
    const bool had = !read.fault || read.fault->kind == SourceFault::Kind::kDamaged;
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(read.text.data()), read.lines().size());
    if (had && !sums_.agrees(chunk, bytes)) {
        return {0, SourceFault{file->path(), file->offset(piece),
                               "the lines from here on have other bytes than when they were read first",
                               SourceFault::Kind::kChanged}};
    }
    Parsed parsed = parse_lines(read.lines(), shape, rows);
    if (!parsed.fault) return {parsed.rows, std::move(read.fault)};
    const std::optional<std::uint64_t> before = read.first_line ? read.first_line : file->lines_before(piece);
    const std::string line = before ? std::to_string(*before + parsed.fault->line + 1) : "unknown";
    const std::string place = "line " + line + ", column " + std::to_string(parsed.fault->column + 1);
    return {parsed.rows, SourceFault{file->path(), std::nullopt, place + ": " + parsed.fault->reason}};
}

}  // namespace sparsepool::svmlight
