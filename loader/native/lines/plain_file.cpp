#include "lines/plain_file.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace sparsepool::lines {

std::optional<FileFault> PlainFile::find_pieces(const FileDescriptor& file) {
    file.expect_jumps();
    std::optional<FileFault> fault = find_begins(file);
    if (!fault) fault = find_whole_size(file);
    counts_ = std::make_unique<std::atomic<std::uint64_t>[]>(num_pieces());
    return fault;
}

std::optional<FileFault> PlainFile::find_begins(const FileDescriptor& file) {
    begins_ = {0};
    if (size_ == 0) return std::nullopt;
    std::uint64_t from = kPiece;  // where the search for the next piece begins
    while (from < size_) {
        std::uint64_t begin = 0;
        if (std::optional<FileFault> fault = find_line(file, from, begin)) return fault;
        if (begin >= size_) break;
        begins_.push_back(begin);
        from = (begin / kPiece + 1) * kPiece;  // a long line reaches over several multiples
    }
    begins_.push_back(size_);
    return std::nullopt;
}

// Finds the last line feed, from the end of the file backwards.
std::optional<FileFault> PlainFile::find_whole_size(const FileDescriptor& file) {
    std::array<std::uint8_t, 4096> bytes;
    std::uint64_t end = size_;
    while (end != 0) {
        const std::uint64_t begin = end - std::min<std::uint64_t>(end, bytes.size());
        const auto part = std::span(bytes).first(end - begin);
        if (std::optional<FileFault> fault = file.read(part, begin)) return fault;
        const auto feed = std::find(part.rbegin(), part.rend(), std::uint8_t{'\n'});
        if (feed != part.rend()) {
            whole_size_ = begin + static_cast<std::uint64_t>(part.rend() - feed);
            return std::nullopt;
        }
        end = begin;
    }
    return std::nullopt;
}

// Finds the first line that begins at or after `from`, which is not 0. `begin` becomes its offset, or the file's size
// if there is none.
std::optional<FileFault> PlainFile::find_line(const FileDescriptor& file, std::uint64_t from,
                                              std::uint64_t& begin) const {
    std::array<std::uint8_t, 4096> bytes;
    for (std::uint64_t offset = from - 1; offset < size_; offset += bytes.size()) {
        const auto part = std::span(bytes).first(std::min<std::uint64_t>(bytes.size(), size_ - offset));
        if (std::optional<FileFault> fault = file.read(part, offset)) return fault;
        const auto* feed = static_cast<const std::uint8_t*>(std::memchr(part.data(), '\n', part.size()));
        if (feed != nullptr) {
            begin = offset + static_cast<std::uint64_t>(feed - part.data()) + 1;
            return std::nullopt;
        }
    }
    begin = size_;
    return std::nullopt;
}

// Reads the lines of a piece. Counts them at the first read, for `lines_before`.
Piece PlainFile::read(std::size_t index) const {
    Piece piece;
    const std::uint64_t begin = begins_[index];
    const std::uint64_t size = begins_[index + 1] - begin;
    if (size > kMostText) {
        piece.fault = stream::SourceFault{path_, begin, "a line has more than 1 GiB: is this text?"};
        piece.text.assign(1, '\n');
        return piece;
    }
    const FileDescriptor file(path_);
    std::optional<FileFault> fault = file.reopening_fault();
    if (!fault) {
        piece.text.resize(size);
        fault = file.read({reinterpret_cast<std::uint8_t*>(piece.text.data()), size}, begin);
        if (std::optional<FileFault> change = file.change(expected_)) fault = std::move(change);
    }
    if (fault) {
        piece.fault = fault_of(std::move(*fault), begin);
        piece.text.clear();
    } else if (counts_[index].load(std::memory_order_relaxed) == 0) {
        const auto lines = static_cast<std::uint64_t>(std::ranges::count(piece.text, '\n'));
        counts_[index].store(lines + 1, std::memory_order_relaxed);
    }
    piece.text += '\n';
    return piece;
}

std::optional<std::uint64_t> PlainFile::lines_before(std::size_t piece) const {
    std::uint64_t lines = 0;
    for (std::size_t i = 0; i < piece; ++i) {
        const bool is_counted = counts_[i].load(std::memory_order_relaxed) != 0;
        if (!is_counted && read(i).fault) return std::nullopt;
        lines += counts_[i].load(std::memory_order_relaxed) - 1;
    }
    return lines;
}

}  // namespace sparsepool::lines
