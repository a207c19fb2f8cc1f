#include "rows/native/lines/reader.h"

#include <algorithm>
#include <span>
#include <utility>

namespace sparsepool::rows {

using stream::SourceFault;

namespace {

// The text without its first `count` lines. The last line may lack its line feed.
std::string_view remove_lines(std::string_view text, std::uint64_t count) {
    for (std::uint64_t line = 0; line < count; ++line) {
        const std::size_t feed = std::min(text.find('\n'), text.size() - 1);
        text.remove_prefix(feed + 1);
    }
    return text;
}

}  // namespace

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

// Reads a piece, compares it with its first read, and parses it.
RowReader::Read LineReader::read(std::size_t chunk, const RowShape& shape, stream::RecordBuffer& rows) const {
    const auto [file_index, piece] = chunks_[chunk];
    const lines::LineFile& file = *files_[file_index];
    lines::Piece read = file.read(piece);
    const bool is_read = !read.fault || read.fault->kind == SourceFault::Kind::kDamaged;
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(read.text.data()), read.lines().size());
    if (is_read && !sums_.record_or_verify(chunk, bytes)) {
        return {0,
                SourceFault{file.path(), file.offset(piece),
                            "the lines from here on have other bytes than when they were read first",
                            SourceFault::Kind::kChanged},
                {}};
    }
    ParseResult parsed = parse(file_index, piece, read.lines(), shape, rows);
    if (!parsed.fault) return {parsed.rows, std::move(read.fault), {}};
    if (!skips_damage_) return {parsed.rows, fault_of(chunk, read, *parsed.fault), {}};
    stream::SkippedData skipped = parse_after_fault(chunk, read, shape, rows, parsed);
    return {parsed.rows, std::move(read.fault), {std::move(skipped)}};
}

stream::SkippedData LineReader::parse_after_fault(std::size_t chunk, const lines::Piece& read, const RowShape& shape,
                                                  stream::RecordBuffer& rows, ParseResult& parsed) const {
    const auto [file_index, piece] = chunks_[chunk];
    stream::SkippedData skipped{"damaged", fault_of(chunk, read, *parsed.fault), 0, 0, "line"};
    std::string_view text = read.lines();
    while (parsed.fault) {
        text = remove_lines(text, parsed.fault->line + 1);
        ++skipped.entries;
        ++skipped.units;
        // Only the first piece of a file begins with a header: what remains is parsed as a later piece.
        ParseResult parsed_after = parse(file_index, piece + 1, text, shape, rows);
        parsed.rows += parsed_after.rows;
        parsed.fault = std::move(parsed_after.fault);
    }
    return skipped;
}

SourceFault LineReader::fault_of(std::size_t chunk, const lines::Piece& read, const TextFault& fault) const {
    const auto [file_index, piece] = chunks_[chunk];
    const lines::LineFile& file = *files_[file_index];
    const std::optional<std::uint64_t> first_line = read.first_line ? read.first_line : file.lines_before(piece);
    std::string location = "line " + (first_line ? std::to_string(*first_line + fault.line + 1) : "unknown");
    if (fault.column) location += std::string(", ") + column_noun() + " " + std::to_string(*fault.column + 1);
    return {file.path(), std::nullopt, location + ": " + fault.reason};
}

}  // namespace sparsepool::rows
