#include "chess/formats/binpack/native/file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "chess/formats/binpack/native/layout.h"
#include "common/crc32c.h"

namespace sparsepool::binpack {
namespace {

// Bytes as people write them: b'BIN\x00'.
std::string quoted(std::string_view bytes) {
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

std::uint32_t payload_size(std::string_view header) {
    std::uint32_t size = 0;
    for (unsigned i = 0; i < 4; ++i) size |= std::uint32_t{static_cast<std::uint8_t>(header[4 + i])} << (8 * i);
    return size;
}

std::span<std::uint8_t> memory_of(std::string& bytes) {
    return {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()};
}

}  // namespace

std::size_t chunk_bytes(std::string_view header) {
    if (header.size() < kHeaderBytes || !header.starts_with(std::string_view(kMagic, sizeof kMagic))) return 0;
    const std::uint32_t size = payload_size(header);
    return size > kMaxPayload ? 0 : kHeaderBytes + size;
}

chess::OpenedFile ChunkFile::open(const std::string& path, std::optional<ExpectedFile> expected,
                                  const chess::Codec& codec, const chess::Demands& demands) {
    const FileDescriptor descriptor(path);
    if (std::optional<FileFault> fault = descriptor.opening_fault(expected)) return {nullptr, std::move(*fault)};
    const auto file = std::make_shared<ChunkFile>(path, expected, expected->identity.size, codec, demands);
    std::optional<FileFault> fault = file->list_chunks(descriptor);
    if (!fault) fault = descriptor.change(expected);
    if (fault) return {nullptr, std::move(*fault)};
    return {file, {}};
}

std::shared_ptr<const ChunkFile> ChunkFile::hold(std::string name, std::string bytes, std::uint64_t begin,
                                                 const chess::Codec& codec, const chess::Demands& demands) {
    const std::uint64_t size = begin + bytes.size();
    const auto file = std::make_shared<ChunkFile>(std::move(name), std::nullopt, size, codec, demands);
    const std::string_view header = std::string_view(bytes).substr(0, kHeaderBytes);
    if (std::string wrong = file->header_fault(begin, header); !wrong.empty()) {
        file->damage_ = HeaderDamage{begin, std::move(wrong)};
        return file;
    }
    file->chunks_.push_back({begin, payload_size(header)});
    bytes.erase(0, kHeaderBytes);
    file->held_ = std::move(bytes);
    return file;
}

chess::Piece ChunkFile::read(std::size_t piece) const {
    if (piece == chunks_.size())
        return {{}, damage_->offset, 0, stream::SourceFault{path_, damage_->offset, damage_->reason}};
    const Chunk& chunk = chunks_[piece];
    chess::Piece read{{}, chunk.offset + kHeaderBytes, 0, {}};
    if (held_) {
        read.bytes = *held_;
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
    std::optional<FileFault> fault = descriptor.read(memory_of(header), chunk.offset);
    if (!fault) fault = descriptor.read(memory_of(payload), chunk.offset + kHeaderBytes);
    // After the read: a write changes the file's time before its bytes, so what was read of an unchanged file is good.
    if (std::optional<FileFault> changed = descriptor.change(expected_)) return changed;
    if (fault) return fault;
    if (chunk_bytes(header) == kHeaderBytes + chunk.size) return std::nullopt;
    return FileFault{true, "the header of this chunk has changed since the file was opened"};
}

stream::SourceFault ChunkFile::fault_of(std::size_t, const chess::Piece& read, const chess::Damage& damage) const {
    return {path_, read.begin + damage.offset,
            damage.reason + " (entry " + std::to_string(damage.unit) + " of its chain)"};
}

stream::SourceFault ChunkFile::refusal(std::size_t piece, const chess::Piece& read, const chess::Walk& walk,
                                       std::string reason) const {
    return fault_of(piece, read, walk.refusal(std::move(reason)));
}

stream::SourceFault ChunkFile::left_out(std::size_t, const chess::Piece& read, const chess::IllegalTally& tally) const {
    return {path_, read.begin + tally.first()->offset, tally.describe()};
}

std::uint32_t ChunkFile::sum_before(std::size_t piece) const {
    if (piece == chunks_.size()) return 0;
    std::uint8_t header[kHeaderBytes];
    std::memcpy(header, kMagic, sizeof kMagic);
    for (unsigned i = 0; i < 4; ++i) header[4 + i] = static_cast<std::uint8_t>(chunks_[piece].size >> (8 * i));
    return crc32c(header, sizeof header, 0);
}

std::optional<stream::SourceFault> ChunkFile::useless() const {
    if (!damage_ || !chunks_.empty()) return std::nullopt;
    return stream::SourceFault{path_, damage_->offset, damage_->reason};
}

std::optional<FileFault> ChunkFile::list_chunks(const FileDescriptor& file) {
    file.expect_jumps();
    std::uint64_t offset = 0;
    while (offset < size_) {
        std::string header(std::min(kHeaderBytes, size_ - offset), '\0');
        if (std::optional<FileFault> fault = file.read(memory_of(header), offset)) return fault;
        std::string wrong = header_fault(offset, header);
        if (!wrong.empty()) {
            damage_ = HeaderDamage{offset, std::move(wrong)};
            return std::nullopt;
        }
        const std::uint32_t size = payload_size(header);
        chunks_.push_back({offset, size});
        offset += kHeaderBytes + size;
    }
    return std::nullopt;
}

// What is wrong with the header at `offset`, of which so much is there; empty if nothing is.
std::string ChunkFile::header_fault(std::uint64_t offset, std::string_view header) {
    const std::string_view magic = header.substr(0, sizeof kMagic);
    if (!std::string_view(kMagic, sizeof kMagic).starts_with(magic))
        return "expected a chunk, which begins with b'BINP', got " + quoted(magic);
    cut_ = true;
    if (header.size() < kHeaderBytes)
        return "expected the " + std::to_string(kHeaderBytes) + " bytes that a chunk begins with, got " +
               std::to_string(header.size());
    const std::uint32_t size = payload_size(header);
    const std::uint64_t present = size_ - offset - kHeaderBytes;
    const bool absurd = size > kMaxPayload;
    cut_ = !absurd && size > present;
    if (absurd)
        return "expected a chunk of at most " + std::to_string(kMaxPayload) + " bytes, got one of " +
               std::to_string(size);
    if (cut_) return "expected the " + std::to_string(size) + " bytes of the chunk, got " + std::to_string(present);
    return {};
}

}  // namespace sparsepool::binpack
