#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chess/native/files/codec.h"
#include "common/files/descriptor.h"
#include "common/files/identity.h"
#include "compression/sequence.h"
#include "stream/source.h"

namespace sparsepool::chess {

using packed::Piece;

// A file in pieces of whole units, which are always the same. Any number of threads may read at once.
class EntryFile {
  public:
    EntryFile(std::string path, std::optional<ExpectedFile> expected, std::uint64_t size, const Codec& codec,
              const Demands& demands)
        : path_(std::move(path)), expected_(expected), size_(size), codec_(codec), demands_(demands) {}
    virtual ~EntryFile() = default;
    EntryFile(const EntryFile&) = delete;
    EntryFile& operator=(const EntryFile&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::uint64_t size() const { return size_; }
    [[nodiscard]] const Codec& codec() const { return codec_; }

    [[nodiscard]] virtual std::size_t num_pieces() const = 0;
    [[nodiscard]] virtual std::uint64_t offset(std::size_t piece) const = 0;  // bytes of the file, about
    [[nodiscard]] const Demands& demands() const { return demands_; }
    [[nodiscard]] virtual bool is_packed() const = 0;
    [[nodiscard]] std::string change() const { return expected_ ? change_since(*expected_, path_) : std::string(); }
    [[nodiscard]] virtual Piece read(std::size_t piece) const = 0;

    // Bytes of the file up to the end of its last whole unit.
    [[nodiscard]] virtual std::uint64_t whole_size() const = 0;

    // Of what was read: damage as a user is told of it.
    [[nodiscard]] virtual stream::SourceFault fault_of(std::size_t piece, const Piece& read,
                                                       const Damage& damage) const = 0;

    [[nodiscard]] Walk walk(const Piece& piece) const { return walk(piece, demands_); }
    [[nodiscard]] Walk walk(const Piece& piece, const Demands& demands) const {
        return {
            codec_.kernels(), {reinterpret_cast<const std::uint8_t*>(piece.bytes.data()), piece.bytes.size()}, demands};
    }

  protected:
    [[nodiscard]] stream::SourceFault fault_of(FileFault fault, std::optional<std::uint64_t> at) const {
        using enum stream::SourceFault::Kind;
        return {path_, at, std::move(fault.reason), fault.changed ? kChanged : kUnreadable};
    }

    std::string path_;
    std::optional<ExpectedFile> expected_;
    std::uint64_t size_;
    const Codec& codec_;
    Demands demands_;
};

struct OpenedFile {
    std::shared_ptr<const EntryFile> file;  // empty if the file can't be used at all
    FileFault fault;                        // then why
};

// A file of records or games, plain or compressed by its first bytes: the first `size` bytes of the expected file, or
// of the one that is there; any other is a fault, here and whenever a piece is read. `borders`: where pieces of games
// begin, and where the last one ends, if that is known; else the file is read for it.
[[nodiscard]] OpenedFile open_unit_file(const std::string& path, std::optional<ExpectedFile> expected,
                                        const Codec& codec, const Demands& demands,
                                        std::optional<std::vector<std::uint64_t>> borders);

}  // namespace sparsepool::chess
