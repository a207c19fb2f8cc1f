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
        return {0,
                SourceFault{file.path(), file.offset(piece),
                            "the lines from here on have other bytes than when they were read first",
                            SourceFault::Kind::kChanged},
                {}};
    }
    ParseResult parsed = parse(index, piece, read.lines(), shape, rows);
    if (!parsed.fault) return {parsed.rows, std::move(read.fault), {}};
    if (!leaves_out_damage_) return {parsed.rows, fault_of(chunk, read, *parsed.fault), {}};
    stream::LeftOut left_out = parse_on(chunk, read, shape, rows, parsed);
    return {parsed.rows, std::move(read.fault), {std::move(left_out)}};
}

stream::LeftOut LineReader::parse_on(std::size_t chunk, const lines::Piece& read, const RowShape& shape,
                                     stream::RecordBuffer& rows, ParseResult& parsed) const {
    const auto [index, piece] = chunks_[chunk];
    stream::LeftOut left_out{"damaged", fault_of(chunk, read, *parsed.fault), 0, 0, "line"};
    std::string_view text = read.lines();
    while (parsed.fault) {
        for (std::uint64_t line = 0; line <= parsed.fault->line; ++line)
            text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
        ++left_out.entries;
        ++left_out.units;
        // No later piece begins with a header.
        ParseResult more = parse(index, piece + 1, text, shape, rows);
        parsed.rows += more.rows;
        parsed.fault = std::move(more.fault);
    }
    return left_out;
}

SourceFault LineReader::fault_of(std::size_t chunk, const lines::Piece& read, const TextFault& fault) const {
    const auto [index, piece] = chunks_[chunk];
    const lines::LineFile& file = *files_[index];
    const std::optional<std::uint64_t> before = read.first_line ? read.first_line : file.lines_before(piece);
    std::string place = "line " + (before ? std::to_string(*before + fault.line + 1) : "unknown");
    if (fault.column) place += std::string(", ") + column_word() + " " + std::to_string(*fault.column + 1);
    return {file.path(), std::nullopt, place + ": " + fault.reason};
}

}  // namespace sparsepool::rows
