#include "formats/binpack/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "formats/binpack/layout.h"

namespace sparsepool {
namespace {

class Descriptor {
  public:
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    [[nodiscard]] int number() const { return number_; }

  private:
    int number_;
};

std::string error_text(int error) { return std::generic_category().message(error); }

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

BinpackFile::Opened BinpackFile::open(const std::string& path) {
    // O_NONBLOCK: a named pipe is refused below rather than waited for.
    const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (descriptor.number() < 0) return {nullptr, error_text(errno)};
    struct stat status {};
    if (::fstat(descriptor.number(), &status) != 0) return {nullptr, error_text(errno)};
    if (S_ISDIR(status.st_mode)) return {nullptr, "is a folder, not a file"};
    if (!S_ISREG(status.st_mode)) return {nullptr, "is not a regular file"};
    const auto size = static_cast<std::size_t>(status.st_size);
    std::span<const std::uint8_t> bytes;
    if (size != 0) {
        void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor.number(), 0);
        if (address == MAP_FAILED) return {nullptr, "can't be mapped: " + error_text(errno)};
        bytes = {static_cast<const std::uint8_t*>(address), size};
    }
    const std::shared_ptr<BinpackFile> file(new BinpackFile(path, bytes));
    file->list_chunks();
    return {file, {}};
}

BinpackFile::BinpackFile(std::string path, std::span<const std::uint8_t> bytes)
    : path_(std::move(path)), bytes_(bytes) {}

BinpackFile::~BinpackFile() {
    if (!bytes_.empty()) ::munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
}

std::span<const std::uint8_t> BinpackFile::payload(std::size_t chunk) const {
    return bytes_.subspan(payload_offset(chunk), chunks_[chunk].size);
}

std::uint64_t BinpackFile::payload_offset(std::size_t chunk) const {
    return chunks_[chunk].offset + binpack::kHeaderBytes;
}

void BinpackFile::list_chunks() {
    std::uint64_t offset = 0;
    while (offset < bytes_.size()) {
        std::string fault = header_fault(offset);
        if (!fault.empty()) {
            header_damage_ = Damage{offset, 0, std::move(fault)};
            return;
        }
        const std::uint32_t size = load_little_endian(bytes_.data() + offset + sizeof binpack::kMagic);
        chunks_.push_back({offset, size});
        offset += binpack::kHeaderBytes + size;
    }
}

// What is wrong with the header at `offset`; empty if nothing is.
std::string BinpackFile::header_fault(std::uint64_t offset) const {
    const std::span<const std::uint8_t> rest = bytes_.subspan(offset);
    const std::span<const std::uint8_t> magic = rest.first(std::min(rest.size(), sizeof binpack::kMagic));
    if (std::memcmp(magic.data(), binpack::kMagic, magic.size()) != 0) return "bad magic " + quoted(magic);
    if (rest.size() < binpack::kHeaderBytes) return "truncated chunk header";
    const std::uint32_t size = load_little_endian(rest.data() + sizeof binpack::kMagic);
    if (size > binpack::kMaxPayload) return "chunk size " + std::to_string(size) + " is absurd";
    const std::uint64_t present = rest.size() - binpack::kHeaderBytes;
    if (size > present) {
        return "chunk of " + std::to_string(size) + " bytes is cut at " + std::to_string(present);
    }
    return {};
}

}  // namespace sparsepool
