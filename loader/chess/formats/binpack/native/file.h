#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chess/native/files/file.h"

namespace sparsepool::binpack {

// A file of chunks, each of them a piece: its payload. A header that is no chunk's ends their list: what is from there
// on is one piece more, which is that damage. The file is not kept open: it is opened for each chunk that is read, so
// any number of files can be in use, and one that is cut or replaced meanwhile is an answer and not a signal.
class ChunkFile final : public chess::EntryFile {
  public:
    using EntryFile::EntryFile;

    // Hops from header to header. A file of 0 bytes is whole and has no chunks.
    [[nodiscard]] std::optional<FileFault> list_chunks(const FileDescriptor& file);

    // What has come out of a pipe, in memory: a chunk, or what is there instead of one. `begin`: bytes before it.
    [[nodiscard]] static std::shared_ptr<const ChunkFile> open_in_memory(std::string name, std::string bytes,
                                                                         std::uint64_t begin, const chess::Codec& codec,
                                                                         const chess::ReadOptions& options);

    [[nodiscard]] std::size_t num_pieces() const override { return chunks_.size() + (damage_ ? 1 : 0); }
    [[nodiscard]] std::uint64_t offset(std::size_t piece) const override {
        return piece < chunks_.size() ? chunks_[piece].offset : damage_->offset;
    }
    [[nodiscard]] bool is_packed() const override { return false; }
    [[nodiscard]] chess::Piece read(std::size_t piece) const override;
    [[nodiscard]] std::uint64_t whole_size() const override { return cut_ ? damage_->offset : size_; }
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

    std::optional<std::string> held_;  // the only chunk's payload, if it is of a pipe
    std::vector<Chunk> chunks_;
    std::optional<HeaderDamage> damage_;
    bool cut_ = false;  // that is only that the file ends too early
};

// One that is compressed: its pieces are the chunks that end in a stretch of it, cut out of what is decoded.
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
    // `decoded`: bytes before it of what the file decodes to.
    [[nodiscard]] stream::SourceFault fault_at(std::size_t piece, std::uint64_t decoded,
                                               const std::string& reason) const;

    packed::Sequence sequence_;
};

// Compressed or not, by its first bytes.
[[nodiscard]] chess::OpenedFile open_chunks(const std::string& path, std::optional<ExpectedFile> expected,
                                            const chess::Codec& codec, const chess::ReadOptions& options);

// Bytes of the chunk that begins so, its header included; 0 if that is no header of a chunk.
[[nodiscard]] std::size_t chunk_bytes(std::string_view header);

}  // namespace sparsepool::binpack
