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

inline constexpr std::size_t kMostText = std::size_t{1} << 30;  // of a piece, and so of a line

// Whole lines of a file, with a line feed behind them that does not count; or why they can't be had, and those before.
struct Piece {
    std::string text;
    std::optional<std::uint64_t> first_line;  // from 0; none if only `lines_before` knows
    std::optional<stream::SourceFault> fault;

    [[nodiscard]] std::string_view lines() const { return std::string_view(text).substr(0, text.size() - 1); }
};

// A text file in pieces of whole lines, which are always the same. Any number of threads may read at once.
class LineFile {
  public:
    LineFile(std::string path, std::optional<ExpectedFile> expected, std::uint64_t size)
        : path_(std::move(path)), expected_(expected), size_(size) {}
    virtual ~LineFile() = default;
    LineFile(const LineFile&) = delete;
    LineFile& operator=(const LineFile&) = delete;

    struct Opened {
        std::shared_ptr<const LineFile> file;  // empty if the file can't be used at all
        FileFault fault;                       // then why
    };

    // A plain file, or one of zlib's or zstd's, by its first bytes: the first `size` bytes of the expected file, or of
    // the one that is there; any other is a fault, here and whenever a piece is read.
    [[nodiscard]] static Opened open(const std::string& path, std::optional<ExpectedFile> expected = std::nullopt);

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::uint64_t size() const { return size_; }
    [[nodiscard]] const std::optional<ExpectedFile>& expected() const { return expected_; }
    [[nodiscard]] virtual std::size_t num_pieces() const = 0;
    [[nodiscard]] virtual std::uint64_t offset(std::size_t piece) const = 0;  // bytes of the file, about
    [[nodiscard]] virtual bool is_packed() const = 0;
    [[nodiscard]] virtual Piece read(std::size_t piece) const = 0;

    // Lines before the piece, for an error: reads what it must. None if the file can't be read any more.
    [[nodiscard]] virtual std::optional<std::uint64_t> lines_before(std::size_t piece) const = 0;

    // Bytes of the file up to the end of its last whole line.
    [[nodiscard]] virtual std::uint64_t whole_size() const = 0;

  protected:
    [[nodiscard]] stream::SourceFault fault_of(FileFault fault, std::optional<std::uint64_t> at) const {
        using enum stream::SourceFault::Kind;
        return {path_, at, std::move(fault.reason), fault.changed ? kChanged : kUnreadable};
    }

    std::string path_;
    std::optional<ExpectedFile> expected_;
    std::uint64_t size_;
};

}  // namespace sparsepool::lines
