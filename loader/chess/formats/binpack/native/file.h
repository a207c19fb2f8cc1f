#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chess/native/files/file.h"

namespace sparsepool::binpack {

// A file of chunks. A piece is the payload of a chunk. A wrong header ends the list of chunks: one more piece reports
// that damage. The file is not kept open but opened for each chunk that is read: so any number of files can be in use,
// and one that is truncated or replaced meanwhile gives a fault and no signal.
class ChunkFile final : public chess::EntryFile {
  public:
    using EntryFile::EntryFile;

    // Lists the chunks by reading their headers. A file of 0 bytes is complete and has no chunks.
    [[nodiscard]] std::optional<FileFault> list_chunks(const FileDescriptor& file);

    // Returns a file of one chunk that came out of a pipe, or of the bytes that are there instead of a chunk. `begin`:
    // bytes of the pipe before them.
    [[nodiscard]] static std::shared_ptr<const ChunkFile> open_in_memory(std::string name, std::string bytes,
                                                                         std::uint64_t begin, const chess::Codec& codec,
                                                                         const chess::ReadOptions& options);

    [[nodiscard]] std::size_t num_pieces() const override { return chunks_.size() + (damage_ ? 1 : 0); }
    [[nodiscard]] std::uint64_t offset(std::size_t piece) const override {
        return piece < chunks_.size() ? chunks_[piece].offset : damage_->offset;
    }
    [[nodiscard]] bool is_packed() const override { return false; }
    [[nodiscard]] chess::Piece read(std::size_t piece) const override;
    [[nodiscard]] std::uint64_t whole_size() const override { return truncated_ ? damage_->offset : size_; }
    [[nodiscard]] stream::SourceFault fault_of(std::size_t piece, const chess::Piece& read,
                                               const chess::Damage& damage) const override;
    [[nodiscard]] stream::SourceFault refusal(std::size_t piece, const chess::Piece& read, const chess::Walk& walk,
                                              std::string reason) const override;
    [[nodiscard]] std::uint32_t sum_before(std::size_t piece) const override;  // of the header
    [[nodiscard]] std::optional<stream::SourceFault> find_unusable_reason() const override;
    [[nodiscard]] const char* describe_change() const override {
        return "this chunk has other bytes than when it was read first";
    }

  private:
    struct Chunk {
        std::uint64_t offset = 0;  // of the chunk's header in the file
        std::uint32_t size = 0;    // of the payload, which begins 8 bytes further
    };

    // The header at which the list of chunks ends early.
    struct HeaderDamage {
        std::uint64_t offset = 0;
        std::string reason;
    };

    [[nodiscard]] std::optional<FileFault> read_payload(const Chunk& chunk, std::string& payload) const;

    std::optional<std::string> memory_payload_;  // of the only chunk, if it came out of a pipe
    std::vector<Chunk> chunks_;
    std::optional<HeaderDamage> damage_;
    bool truncated_ = false;  // the damage is only that the file ends too early
};

// A compressed file of chunks. A piece has the payloads of the chunks that end in a stretch of the decompressed file.
class PackedChunkFile final : public chess::EntryFile {
  public:
    PackedChunkFile(std::string path, std::optional<ExpectedFile> expected, std::uint64_t size,
                    const chess::Codec& codec, const chess::ReadOptions& options, packed::MakeUnpacker make);

    [[nodiscard]] std::size_t num_pieces() const override { return sequence_.num_pieces(); }
    [[nodiscard]] std::uint64_t offset(std::size_t piece) const override { return piece * packed::Sequence::kPiece; }
    [[nodiscard]] bool is_packed() const override { return true; }
    [[nodiscard]] chess::Piece read(std::size_t piece) const override;  // the payloads alone
    [[nodiscard]] std::unique_ptr<chess::Walk> walk(const chess::Piece& piece,
                                                    const chess::ReadOptions& options) const override;
    [[nodiscard]] std::uint64_t whole_size() const override { return size_; }
    [[nodiscard]] stream::SourceFault fault_of(std::size_t piece, const chess::Piece& read,
                                               const chess::Damage& damage) const override;
    [[nodiscard]] stream::SourceFault refusal(std::size_t piece, const chess::Piece& read, const chess::Walk& walk,
                                              std::string reason) const override;

  private:
    // Returns a fault at an offset of the decompressed file.
    [[nodiscard]] stream::SourceFault fault_at(std::size_t piece, std::uint64_t decoded,
                                               const std::string& reason) const;

    packed::Sequence sequence_;
};

// Opens a file of chunks, compressed or not as its first bytes say.
[[nodiscard]] chess::OpenedFile open_chunks(const std::string& path, std::optional<ExpectedFile> expected,
                                            const chess::Codec& codec, const chess::ReadOptions& options);

// Returns the size of the chunk with this header, the header included; 0 if it is no header of a chunk.
[[nodiscard]] std::size_t chunk_bytes(std::string_view header);

}  // namespace sparsepool::binpack
