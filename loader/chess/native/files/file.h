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
              const ReadOptions& options, std::string header = {})
        : path_(std::move(path)),
          expected_(expected),
          size_(size),
          codec_(codec),
          options_(options),
          header_(std::move(header)) {}
    virtual ~EntryFile() = default;
    EntryFile(const EntryFile&) = delete;
    EntryFile& operator=(const EntryFile&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::uint64_t size() const { return size_; }
    [[nodiscard]] const Codec& codec() const { return codec_; }

    [[nodiscard]] virtual std::size_t num_pieces() const = 0;
    [[nodiscard]] virtual std::uint64_t offset(std::size_t piece) const = 0;  // bytes of the file, about
    [[nodiscard]] const ReadOptions& options() const { return options_; }
    [[nodiscard]] virtual bool is_packed() const = 0;
    [[nodiscard]] std::string change() const { return expected_ ? change_since(*expected_, path_) : std::string(); }
    [[nodiscard]] virtual Piece read(std::size_t piece) const = 0;

    // Through a piece, which must stay.
    [[nodiscard]] virtual std::unique_ptr<Walk> walk(const Piece& piece, const ReadOptions& options) const {
        return codec_.walk_under(header_, piece.bytes, options);
    }

    // Bytes of the file up to the end of its last whole unit.
    [[nodiscard]] virtual std::uint64_t whole_size() const = 0;

    // Of what was read: damage as a user is told of it.
    [[nodiscard]] virtual stream::SourceFault fault_of(std::size_t piece, const Piece& read,
                                                       const Damage& damage) const = 0;

    // Of an entry that a writer refuses, read last by `walk`.
    [[nodiscard]] virtual stream::SourceFault refusal(std::size_t piece, const Piece& read, const Walk& walk,
                                                      std::string reason) const {
        const std::string number = std::to_string(read.first_unit + walk.units());
        return {path_, offset(piece),
                std::string(codec_.units().word()) + " " + number +
                    (read.first_unit == 0 && piece != 0 ? " from here on" : "") + ": " + std::move(reason)};
    }

    // What was left out of a piece, by kind.
    [[nodiscard]] std::vector<stream::SkippedData> skipped(std::size_t piece, const Piece& read,
                                                           const SkippedTally& tally) const;

    // Why there is nothing good in the file, if that is known before it is read.
    [[nodiscard]] virtual std::optional<stream::SourceFault> find_unusable_reason() const { return std::nullopt; }

    // The CRC-32C of what comes before a piece's bytes and is not among them.
    [[nodiscard]] virtual std::uint32_t sum_before(std::size_t) const { return 0; }

    // Of a piece that has other bytes than when it was read first.
    [[nodiscard]] virtual const char* describe_change() const {
        return "the entries from here on have other bytes than when they were read first";
    }

  protected:
    // "line 7: " of a unit in which damage is, where its number is told.
    [[nodiscard]] std::string describe(std::uint64_t unit) const {
        if (!codec_.is_text()) return {};
        return std::string(codec_.units().word()) + " " + std::to_string(unit + (codec_.has_lines() ? 1 : 0)) + ": ";
    }

    [[nodiscard]] stream::SourceFault fault_of(FileFault fault, std::optional<std::uint64_t> at) const {
        using enum stream::SourceFault::Kind;
        return {path_, at, std::move(fault.reason), fault.changed ? kChanged : kUnreadable};
    }

    std::string path_;
    std::optional<ExpectedFile> expected_;
    std::uint64_t size_;
    const Codec& codec_;
    ReadOptions options_;
    std::string header_;  // as Codec::header_in gives it
};

struct OpenedFile {
    std::shared_ptr<const EntryFile> file;  // empty if the file can't be used at all
    FileFault fault;                        // then why
};

}  // namespace sparsepool::chess
