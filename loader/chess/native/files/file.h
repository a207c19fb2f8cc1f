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

    // Returns a walk through a piece, which must outlive it.
    [[nodiscard]] virtual std::unique_ptr<Walk> walk(const Piece& piece, const ReadOptions& options) const {
        return codec_.walk_under(header_, piece.bytes, options);
    }

    // Bytes of the file up to the end of its last whole unit.
    [[nodiscard]] virtual std::uint64_t whole_size() const = 0;

    // Returns damage of a piece that was read as a fault for the user.
    [[nodiscard]] virtual stream::SourceFault fault_of(std::size_t piece, const Piece& read,
                                                       const Damage& damage) const = 0;

    // Returns the fault of the entry that `walk` has read last, which a writer refuses.
    [[nodiscard]] virtual stream::SourceFault refusal(std::size_t piece, const Piece& read, const Walk& walk,
                                                      std::string reason) const {
        const bool counts_from_piece = read.first_unit == 0 && piece != 0;
        std::string text = std::string(codec_.units().word()) + " " + std::to_string(read.first_unit + walk.units());
        if (counts_from_piece) text += " from here on";
        return {path_, offset(piece), text + ": " + std::move(reason)};
    }

    // Returns what was skipped of a piece, by kind.
    [[nodiscard]] std::vector<stream::SkippedData> skipped(std::size_t piece, const Piece& read,
                                                           const SkippedTally& tally) const;

    // Returns why there is nothing good in the file, if that is known before it is read.
    [[nodiscard]] virtual std::optional<stream::SourceFault> find_unusable_reason() const { return std::nullopt; }

    // Returns the CRC-32C of a header before a piece's bytes that is not among them.
    [[nodiscard]] virtual std::uint32_t sum_before(std::size_t) const { return 0; }

    // Returns the message for a piece that has other bytes than when it was first read.
    [[nodiscard]] virtual const char* describe_change() const {
        return "the entries from here on have other bytes than when they were read first";
    }

  protected:
    // Returns "line 7: " for messages on a unit of a text; an empty text for other formats.
    [[nodiscard]] std::string unit_prefix(std::uint64_t unit) const {
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
