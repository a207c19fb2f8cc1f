#include "chess/formats/binpack/native/file/file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "chess/formats/binpack/native/layout.h"

namespace sparsepool::binpack {
namespace {

// Bytes as people write them: b'BIN\x00'.
std::string quoted(std::span<const std::uint8_t> bytes) {
    constexpr char kHex[] = "0123456789abcdef";
    std::string text = "b'";
    for (const std::uint8_t byte : bytes) {
        if (byte >= 0x20 && byte < 0x7F && byte != '\'' && byte != '\\') {
            text += static_cast<char>(byte);
        } else {
            text += "\\x";
            text += kHex[byte >> 4];
            text += kHex[byte & 15];
        }
    }
    return text + "'";
}

std::uint32_t load_little_endian(const std::uint8_t* bytes) {
    return std::uint32_t{bytes[0]} | std::uint32_t{bytes[1]} << 8 | std::uint32_t{bytes[2]} << 16 |
           std::uint32_t{bytes[3]} << 24;
}

}  // namespace

std::span<const std::uint8_t> File::Bytes::payload() const { return whole().subspan(kHeaderBytes); }

File::Opened File::open(const std::string& path, std::optional<ExpectedFile> expected, const chess::Demands& demands) {
    const FileDescriptor descriptor(path);
    if (std::optional<Fault> fault = descriptor.opening_fault(expected)) return {nullptr, std::move(*fault)};
    const std::shared_ptr<File> file(new File(path, expected, demands));
    file->size_ = expected->identity.size;
    std::optional<Fault> fault = file->list_chunks(descriptor);
    if (!fault) fault = descriptor.change(expected);
    if (fault) return {nullptr, std::move(*fault)};
    return {file, {}};
}

std::shared_ptr<const File> File::hold(std::string name, std::string bytes, std::uint64_t begin,
                                       const chess::Demands& demands) {
    const std::shared_ptr<File> file(new File(std::move(name), std::nullopt, demands));
    file->size_ = begin + bytes.size();
    const std::span all(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    const auto header = all.first(std::min<std::size_t>(all.size(), kHeaderBytes));
    if (std::string wrong = file->header_fault(begin, header); !wrong.empty()) {
        file->header_damage_ = Damage{begin, 0, std::move(wrong)};
        return file;
    }
    file->chunks_.push_back({begin, load_little_endian(all.data() + sizeof kMagic)});
    file->held_ = std::move(bytes);
    return file;
}

std::uint64_t chunk_bytes(std::span<const std::uint8_t> header) {
    if (header.size() < kHeaderBytes || std::memcmp(header.data(), kMagic, sizeof kMagic) != 0) return 0;
    const std::uint32_t size = load_little_endian(header.data() + sizeof kMagic);
    return size > kMaxPayload ? 0 : kHeaderBytes + size;
}

File::File(std::string path, std::optional<ExpectedFile> expected, const chess::Demands& demands)
    : path_(std::move(path)), expected_(expected), demands_(demands) {}

File::Bytes File::read(std::size_t chunk) const {
    const auto [offset, payload] = chunks_[chunk];
    const std::size_t size = kHeaderBytes + payload;
    auto memory = std::make_unique_for_overwrite<std::uint8_t[]>(size);
    if (held_) {
        std::memcpy(memory.get(), held_->data(), size);
        return {std::move(memory), size};
    }
    const FileDescriptor descriptor(path_);
    if (std::optional<Fault> fault = descriptor.reopening_fault()) return Bytes(std::move(*fault));
    std::optional<Fault> fault = descriptor.read({memory.get(), size}, offset);
    // After the read: a write changes the file's time before its bytes, so what was read of an unchanged file is good.
    if (std::optional<Fault> changed = descriptor.change(expected_)) fault = std::move(changed);
    if (fault) return Bytes(std::move(*fault));
    const bool same = std::memcmp(memory.get(), kMagic, sizeof kMagic) == 0 &&
                      load_little_endian(memory.get() + sizeof kMagic) == payload;
    if (!same) return Bytes(Fault{true, "the header of this chunk has changed since the file was opened"});
    return {std::move(memory), size};
}

std::uint64_t File::payload_offset(std::size_t chunk) const { return chunks_[chunk].offset + kHeaderBytes; }

std::optional<File::Fault> File::list_chunks(const FileDescriptor& file) {
    file.expect_jumps();
    std::uint64_t offset = 0;
    while (offset < size_) {
        std::uint8_t header[kHeaderBytes];
        const std::span present(header, std::min<std::uint64_t>(sizeof header, size_ - offset));
        if (std::optional<Fault> fault = file.read(present, offset)) return fault;
        std::string wrong = header_fault(offset, present);
        if (!wrong.empty()) {
            header_damage_ = Damage{offset, 0, std::move(wrong)};
            return std::nullopt;
        }
        const std::uint32_t size = load_little_endian(header + sizeof kMagic);
        chunks_.push_back({offset, size});
        offset += kHeaderBytes + size;
    }
    return std::nullopt;
}

// What is wrong with the header at `offset`, of which so much is there; empty if nothing is.
std::string File::header_fault(std::uint64_t offset, std::span<const std::uint8_t> header) {
    const std::span<const std::uint8_t> magic = header.first(std::min(header.size(), sizeof kMagic));
    if (std::memcmp(magic.data(), kMagic, magic.size()) != 0)
        return "expected a chunk, which begins with b'BINP', got " + quoted(magic);
    cut_ = true;
    if (header.size() < kHeaderBytes)
        return "expected the " + std::to_string(kHeaderBytes) + " bytes that a chunk begins with, got " +
               std::to_string(header.size());
    const std::uint32_t size = load_little_endian(header.data() + sizeof kMagic);
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
