#include "lines/plain_file.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace sparsepool::lines {

std::optional<FileFault> PlainFile::cut(const FileDescriptor& file) {
    begins_ = {0};
    file.expect_jumps();
    if (size_ != 0) {
        std::uint64_t next = kPiece;  // the next piece is looked for from here on
        while (next < size_) {
            std::uint64_t begin = 0;
            if (std::optional<FileFault> fault = find_line(file, next, begin)) return fault;
            if (begin >= size_) break;
            begins_.push_back(begin);
            next = (begin / kPiece + 1) * kPiece;  // a long line leaves out some
        }
        begins_.push_back(size_);
    }
    lines_ = std::make_unique<std::atomic<std::uint64_t>[]>(num_pieces());
    // Back from the end, for the last line feed.
    std::array<std::uint8_t, 4096> bytes;
    for (std::uint64_t end = size_; end != 0 && whole_size_ == 0;) {
        const std::uint64_t begin = end - std::min<std::uint64_t>(end, bytes.size());
        const auto part = std::span(bytes).first(end - begin);
        if (std::optional<FileFault> fault = file.read(part, begin)) return fault;
        const auto found = std::find(part.rbegin(), part.rend(), std::uint8_t{'\n'});
        if (found != part.rend()) whole_size_ = begin + static_cast<std::uint64_t>(part.rend() - found);
        end = begin;
    }
    return std::nullopt;
}

// Where the first line begins that begins at or behind `from`, which is not 0; the size if there is none.
std::optional<FileFault> PlainFile::find_line(const FileDescriptor& file, std::uint64_t from,
                                              std::uint64_t& begin) const {
    std::array<std::uint8_t, 4096> bytes;
    for (std::uint64_t at = from - 1; at < size_; at += bytes.size()) {
        const auto part = std::span(bytes).first(std::min<std::uint64_t>(bytes.size(), size_ - at));
        if (std::optional<FileFault> fault = file.read(part, at)) return fault;
        if (const void* found = std::memchr(part.data(), '\n', part.size())) {
            begin = at + static_cast<std::uint64_t>(static_cast<const std::uint8_t*>(found) - part.data()) + 1;
            return std::nullopt;
        }
    }
    begin = size_;
    return std::nullopt;
}

Piece PlainFile::read(std::size_t piece) const {
    Piece read;
    const std::uint64_t begin = begins_[piece];
    const std::uint64_t size = begins_[piece + 1] - begin;
    if (size > kMostText) {
        read.fault = stream::SourceFault{path_, begin, "a line has more than 1 GiB: is this text?"};
        read.text.assign(1, '\n');
        return read;
    }
    const FileDescriptor file(path_);
    std::optional<FileFault> fault = file.reopening_fault();
    if (!fault) {
        read.text.resize(size);
        fault = file.read({reinterpret_cast<std::uint8_t*>(read.text.data()), size}, begin);
        if (std::optional<FileFault> changed = file.change(expected_)) fault = std::move(changed);
    }
    if (fault) {
        read.fault = fault_of(std::move(*fault), begin);
        read.text.clear();
    } else if (lines_[piece].load(std::memory_order_relaxed) == 0) {
        const auto lines = static_cast<std::uint64_t>(std::ranges::count(read.text, '\n'));
        lines_[piece].store(lines + 1, std::memory_order_relaxed);
    }
    read.text += '\n';
    return read;
}

std::optional<std::uint64_t> PlainFile::lines_before(std::size_t piece) const {
    std::uint64_t lines = 0;
    for (std::size_t i = 0; i < piece; ++i) {
        if (lines_[i].load(std::memory_order_relaxed) == 0 && read(i).fault) return std::nullopt;
        lines += lines_[i].load(std::memory_order_relaxed) - 1;
    }
    return lines;
}

}  // namespace sparsepool::lines
