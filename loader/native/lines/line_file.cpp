#include "lines/line_file.h"

#include <algorithm>
#include <array>
#include <span>

#include "lines/packed_file.h"
#include "lines/plain_file.h"

namespace sparsepool::lines {

LineFile::Opened LineFile::open(const std::string& path, std::optional<ExpectedFile> expected) {
    const FileDescriptor descriptor(path);
    std::optional<FileFault> fault = descriptor.opening_fault(expected);
    if (fault) return {nullptr, std::move(*fault)};
    const std::uint64_t size = expected->identity.size;
    std::array<std::uint8_t, packed::kMagicBytes> bytes;
    const auto head = std::span(bytes).first(std::min<std::uint64_t>(size, bytes.size()));
    fault = descriptor.read(head, 0);
    if (!fault) {
        if (const auto packing = packed::packing_of(head)) {
            if (packing->missing != nullptr) return {nullptr, {.reason = packing->missing}};
            return {std::make_shared<PackedFile>(path, expected, size, packing->make), {}};
        }
        if (head.size() >= 2 && (head[0] ^ head[1]) == 1 && std::max(head[0], head[1]) == 0xFF) {  // its two marks
            return {nullptr, {.reason = "is UTF-16 text: save it as UTF-8"}};
        }
        const auto file = std::make_shared<PlainFile>(path, expected, size);
        fault = file->cut(descriptor);
        if (!fault) fault = descriptor.change(expected);
        if (!fault) return {file, {}};
    }
    return {nullptr, std::move(*fault)};
}

}  // namespace sparsepool::lines
