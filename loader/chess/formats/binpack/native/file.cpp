#include "chess/formats/binpack/native/file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "chess/formats/binpack/native/layout.h"
#include "chess/formats/binpack/native/walk.h"
#include "common/crc32c.h"
#include "compression/unpacker.h"

namespace sparsepool::binpack {
namespace {

// Returns bytes as a literal of Python: b'BIN\\x00'.
std::string bytes_literal(std::string_view bytes) {
    constexpr char kHex[] = "0123456789abcdef";
    std::string text = "b'";
    for (const char letter : bytes) {
        const auto byte = static_cast<std::uint8_t>(letter);
        if (byte >= 0x20 && byte < 0x7F && byte != '\'' && byte != '\\') {
            text += letter;
        } else {
            text += "\\x";
            text += kHex[byte >> 4];
            text += kHex[byte & 15];
        }
    }
    return text + "'";
}

// Returns the payload's size of a header of 8 bytes.
std::uint32_t payload_size(std::string_view header) {
    std::uint32_t size = 0;  // little-endian
    for (unsigned i = 0; i < 4; ++i) size |= std::uint32_t{static_cast<std::uint8_t>(header[4 + i])} << (8 * i);
    return size;
}

std::span<std::uint8_t> as_writable_bytes(std::string& bytes) {
    return {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()};
}

struct HeaderFault {
    std::string reason;      // empty: none
    bool truncated = false;  // only that the bytes end too early
};

// Checks a chunk's header, of which `header` has the bytes that there are. `available`: bytes from the header on.
HeaderFault check_header(std::string_view header, std::uint64_t available) {
    const std::string_view magic = header.substr(0, sizeof kMagic);
    if (!std::string_view(kMagic, sizeof kMagic).starts_with(magic))
        return {"expected a chunk, which begins with b'BINP', got " + bytes_literal(magic), false};
    if (header.size() < kHeaderBytes)
        return {"expected the " + std::to_string(kHeaderBytes) + " bytes that a chunk begins with, got " +
                    std::to_string(header.size()),
                true};
    const std::uint32_t size = payload_size(header);
    if (size > kMaxPayload)
        return {
            "expected a chunk of at most " + std::to_string(kMaxPayload) + " bytes, got one of " + std::to_string(size),
            false};
    const std::uint64_t available_payload = available - kHeaderBytes;
    if (size <= available_payload) return {};
    return {"expected the " + std::to_string(size) + " bytes of the chunk, got " + std::to_string(available_payload),
            true};
}

// The chunks of a decompressed file. Bytes that are no chunk end the list: they count as whole, so that the file is not
// read on to complete them.
class Chunks final : public Units {
  public:
    [[nodiscard]] const char* word() const override { return "chunk"; }
    [[nodiscard]] std::size_t whole(std::string_view bytes, std::size_t) const override {
        std::size_t end = 0;
        while (bytes.size() - end >= kHeaderBytes) {
            const std::size_t size = chunk_bytes(bytes.substr(end, kHeaderBytes));
            if (size == 0) return bytes.size();
            if (size > bytes.size() - end) break;
            end += size;
        }
        return end;
    }
    [[nodiscard]] std::uint64_t count(std::string_view whole) const override {
        std::uint64_t chunks = 0;
        std::size_t size = chunk_bytes(whole);
        while (size != 0) {
            ++chunks;
            whole.remove_prefix(std::min(size, whole.size()));
            size = chunk_bytes(whole);
        }
        return chunks;
    }
};

const Chunks kChunks;

std::string describe_entry_damage(const chess::Damage& damage) {
    return damage.reason + " (entry " + std::to_string(damage.unit) + " of its chain)";
}

}  // namespace

std::size_t chunk_bytes(std::string_view header) {
    if (header.size() < kHeaderBytes || !header.starts_with(std::string_view(kMagic, sizeof kMagic))) return 0;
    const std::uint32_t size = payload_size(header);
    return size > kMaxPayload ? 0 : kHeaderBytes + size;
}

std::shared_ptr<const ChunkFile> ChunkFile::open_in_memory(std::string name, std::string bytes, std::uint64_t begin,
                                                           const chess::Codec& codec,
                                                           const chess::ReadOptions& options) {
    const std::uint64_t size = begin + bytes.size();
    const auto file = std::make_shared<ChunkFile>(std::move(name), std::nullopt, size, codec, options);
    const std::string_view header = std::string_view(bytes).substr(0, kHeaderBytes);
    HeaderFault fault = check_header(header, bytes.size());
    if (!fault.reason.empty()) {
        file->damage_ = HeaderDamage{begin, std::move(fault.reason)};
        return file;
    }
    file->chunks_.push_back({begin, payload_size(header)});
    bytes.erase(0, kHeaderBytes);
    file->memory_payload_ = std::move(bytes);
    return file;
}

// Reads the payload of a chunk. The piece behind the last chunk is the damage that ends their list.
chess::Piece ChunkFile::read(std::size_t piece) const {
    if (piece == chunks_.size())
        return {{}, damage_->offset, 0, stream::SourceFault{path_, damage_->offset, damage_->reason}};
    const Chunk& chunk = chunks_[piece];
    chess::Piece read{{}, chunk.offset + kHeaderBytes, 0, {}};
    if (memory_payload_) {
        read.bytes = *memory_payload_;
    } else if (std::optional<FileFault> fault = read_payload(chunk, read.bytes)) {
        read.bytes.clear();
        read.fault = EntryFile::fault_of(std::move(*fault), chunk.offset);
    }
    return read;
}

std::optional<FileFault> ChunkFile::read_payload(const Chunk& chunk, std::string& payload) const {
    const FileDescriptor descriptor(path_);
    if (std::optional<FileFault> fault = descriptor.reopening_fault()) return fault;
    std::string header(kHeaderBytes, '\0');
    payload.resize(chunk.size);
    std::optional<FileFault> fault = descriptor.read(as_writable_bytes(header), chunk.offset);
    if (!fault) fault = descriptor.read(as_writable_bytes(payload), chunk.offset + kHeaderBytes);
    // Checked after the read: a write changes the file's time before its bytes, so an unchanged file was read right.
    if (std::optional<FileFault> changed = descriptor.change(expected_)) return changed;
    if (fault) return fault;
    if (chunk_bytes(header) == kHeaderBytes + chunk.size) return std::nullopt;
    return FileFault{true, "the header of this chunk has changed since the file was opened"};
}

stream::SourceFault ChunkFile::fault_of(std::size_t, const chess::Piece& read, const chess::Damage& damage) const {
    return {path_, read.begin + damage.offset, describe_entry_damage(damage)};
}

stream::SourceFault ChunkFile::refusal(std::size_t piece, const chess::Piece& read, const chess::Walk& walk,
                                       std::string reason) const {
    return fault_of(piece, read, walk.refusal(std::move(reason)));
}

std::uint32_t ChunkFile::sum_before(std::size_t piece) const {
    if (piece == chunks_.size()) return 0;
    std::uint8_t header[kHeaderBytes];
    std::memcpy(header, kMagic, sizeof kMagic);
    const std::uint32_t size = chunks_[piece].size;  // little-endian
    for (unsigned i = 0; i < 4; ++i) header[4 + i] = static_cast<std::uint8_t>(size >> (8 * i));
    return crc32c(header, sizeof header, 0);
}

std::optional<stream::SourceFault> ChunkFile::find_unusable_reason() const {
    if (!damage_ || !chunks_.empty()) return std::nullopt;
    return stream::SourceFault{path_, damage_->offset, damage_->reason};
}

std::optional<FileFault> ChunkFile::list_chunks(const FileDescriptor& file) {
    file.expect_jumps();  // from header to header
    std::uint64_t offset = 0;
    while (offset < size_) {
        std::string header(std::min(kHeaderBytes, size_ - offset), '\0');
        if (std::optional<FileFault> fault = file.read(as_writable_bytes(header), offset)) return fault;
        HeaderFault header_fault = check_header(header, size_ - offset);
        if (!header_fault.reason.empty()) {
            damage_ = HeaderDamage{offset, std::move(header_fault.reason)};
            truncated_ = header_fault.truncated;
            return std::nullopt;
        }
        const std::uint32_t size = payload_size(header);
        chunks_.push_back({offset, size});
        offset += kHeaderBytes + size;
    }
    return std::nullopt;
}

PackedChunkFile::PackedChunkFile(std::string path, std::optional<ExpectedFile> expected, std::uint64_t size,
                                 const chess::Codec& codec, const chess::ReadOptions& options,
                                 packed::MakeUnpacker make)
    : EntryFile(std::move(path), expected, size, codec, options), sequence_(path_, expected, size, make, kChunks) {}

// The piece has the payloads of its chunks, without their headers.
chess::Piece PackedChunkFile::read(std::size_t piece) const {
    chess::Piece read = sequence_.read(piece);
    const std::string_view chunks = read.bytes;
    std::string payloads;
    std::size_t offset = 0;
    while (offset < chunks.size()) {
        const std::string_view header = chunks.substr(offset, kHeaderBytes);
        const HeaderFault header_fault = check_header(header, chunks.size() - offset);
        if (!header_fault.reason.empty()) {
            if (!read.fault) read.fault = fault_at(piece, read.begin + offset, header_fault.reason);
            break;
        }
        const std::uint32_t size = payload_size(header);
        payloads += chunks.substr(offset + kHeaderBytes, size);
        read.ends.push_back(payloads.size());
        offset += kHeaderBytes + size;
    }
    read.bytes = std::move(payloads);
    return read;
}

std::unique_ptr<chess::Walk> PackedChunkFile::walk(const chess::Piece& piece, const chess::ReadOptions& options) const {
    return std::make_unique<ChainWalk>(piece.bytes, piece.ends, options);
}

stream::SourceFault PackedChunkFile::fault_of(std::size_t piece, const chess::Piece& read,
                                              const chess::Damage& damage) const {
    const auto is_before = [&](std::uint64_t payload_end) { return payload_end <= damage.offset; };
    const auto headers_before = static_cast<std::uint64_t>(std::ranges::count_if(read.ends, is_before) + 1);
    const std::uint64_t decoded = read.begin + damage.offset + headers_before * kHeaderBytes;
    return fault_at(piece, decoded, describe_entry_damage(damage));
}

stream::SourceFault PackedChunkFile::fault_at(std::size_t piece, std::uint64_t decoded,
                                              const std::string& reason) const {
    return {path_, offset(piece), "byte " + std::to_string(decoded) + " of what is decoded: " + reason};
}

stream::SourceFault PackedChunkFile::refusal(std::size_t piece, const chess::Piece& read, const chess::Walk& walk,
                                             std::string reason) const {
    return fault_of(piece, read, walk.refusal(std::move(reason)));
}

// Opens a file of chunks, compressed or not as its first bytes say.
chess::OpenedFile open_chunks(const std::string& path, std::optional<ExpectedFile> expected, const chess::Codec& codec,
                              const chess::ReadOptions& options) {
    const FileDescriptor descriptor(path);
    if (std::optional<FileFault> fault = descriptor.opening_fault(expected)) return {nullptr, std::move(*fault)};
    const std::uint64_t size = expected->identity.size;
    std::string head(std::min<std::uint64_t>(size, packed::kMagicBytes), '\0');
    if (std::optional<FileFault> fault = descriptor.read(as_writable_bytes(head), 0))
        return {nullptr, std::move(*fault)};
    if (const auto packing = packed::packing_of(as_writable_bytes(head))) {
        if (packing->missing != nullptr) return {nullptr, {.reason = packing->missing}};
        return {std::make_shared<PackedChunkFile>(path, expected, size, codec, options, packing->make), {}};
    }
    const auto file = std::make_shared<ChunkFile>(path, expected, size, codec, options);
    std::optional<FileFault> fault = file->list_chunks(descriptor);
    if (!fault) fault = descriptor.change(expected);
    if (fault) return {nullptr, std::move(*fault)};
    return {file, {}};
}

}  // namespace sparsepool::binpack
