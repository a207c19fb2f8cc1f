#include "lines/line_file.h"

#include <algorithm>
#include <array>
#include <span>

#include "lines/packed_file.h"
#include "lines/plain_file.h"

namespace sparsepool::lines {

namespace {

// Whether a text begins with the byte order mark of UTF-16, FF FE or FE FF.
bool is_utf16(std::span<const std::uint8_t> head) {
    if (head.size() < 2) return false;
    return (head[0] == 0xFF && head[1] == 0xFE) || (head[0] == 0xFE && head[1] == 0xFF);
}

}  // namespace

LineFile::Opened LineFile::open(const std::string& path, std::optional<ExpectedFile> expected) {
    const FileDescriptor descriptor(path);
    std::optional<FileFault> fault = descriptor.opening_fault(expected);
    if (fault) return {nullptr, std::move(*fault)};
    const std::uint64_t size = expected->identity.size;
    std::array<std::uint8_t, packed::kMagicBytes> bytes;
    const auto head = std::span(bytes).first(std::min<std::uint64_t>(size, bytes.size()));
    fault = descriptor.read(head, 0);
    if (fault) return {nullptr, std::move(*fault)};
    const std::optional<packed::Packing> packing = packed::packing_of(head);
    if (packing) {
        if (packing->missing != nullptr) return {nullptr, {.reason = packing->missing}};
        return {std::make_shared<PackedFile>(path, expected, size, packing->make), {}};
    }
    if (is_utf16(head)) return {nullptr, {.reason = "is UTF-16 text: save it as UTF-8"}};
    const auto file = std::make_shared<PlainFile>(path, expected, size);
    fault = file->find_pieces(descriptor);
    if (!fault) fault = descriptor.change(expected);
    if (fault) return {nullptr, std::move(*fault)};
    return {file, {}};
}

}  // namespace sparsepool::lines
