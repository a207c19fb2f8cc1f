#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/files/descriptor.h"
#include "common/files/identity.h"
#include "stream/source.h"

namespace sparsepool::lines {

inline constexpr std::size_t kMostText = std::size_t{1} << 30;  // bytes of a piece, and so of a line

// Complete lines of a file, up to a fault. One more line feed follows them.
struct Piece {
    std::string text;
    std::optional<std::uint64_t> first_line;  // counted from 0; none: ask `lines_before`
    std::optional<stream::SourceFault> fault;

    [[nodiscard]] std::string_view lines() const { return std::string_view(text).substr(0, text.size() - 1); }
};

// A text file in pieces of complete lines, the same pieces each time. Any number of threads may read at once.
class LineFile {
  public:
    LineFile(std::string path, std::optional<ExpectedFile> expected, std::uint64_t size)
        : path_(std::move(path)), expected_(expected), size_(size) {}
    virtual ~LineFile() = default;
    LineFile(const LineFile&) = delete;
    LineFile& operator=(const LineFile&) = delete;

    struct Opened {
        std::shared_ptr<const LineFile> file;  // null if the file can't be used
        FileFault fault;                       // why
    };

    // Opens a plain or compressed file, which its first bytes tell. Only the expected bytes of the expected file count
    // (without `expected`, of the file as it is now). A file that changes is a fault, here and when a piece is read.
    [[nodiscard]] static Opened open(const std::string& path, std::optional<ExpectedFile> expected = std::nullopt);

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::uint64_t size() const { return size_; }
    [[nodiscard]] const std::optional<ExpectedFile>& expected() const { return expected_; }
    [[nodiscard]] virtual std::size_t num_pieces() const = 0;
    [[nodiscard]] virtual std::uint64_t offset(std::size_t piece) const = 0;  // bytes of the file, about
    [[nodiscard]] virtual bool is_packed() const = 0;
    [[nodiscard]] virtual Piece read(std::size_t piece) const = 0;

    // Counts the lines before the piece, for an error message. May read the file; none if it can't be read any more.
    [[nodiscard]] virtual std::optional<std::uint64_t> lines_before(std::size_t piece) const = 0;

    // Bytes of the file up to the end of its last complete line.
    [[nodiscard]] virtual std::uint64_t whole_size() const = 0;

  protected:
    [[nodiscard]] stream::SourceFault fault_of(FileFault fault, std::optional<std::uint64_t> offset) const {
        using enum stream::SourceFault::Kind;
        return {path_, offset, std::move(fault.reason), fault.changed ? kChanged : kUnreadable};
    }

    std::string path_;
    std::optional<ExpectedFile> expected_;
    std::uint64_t size_;
};

}  // namespace sparsepool::lines
