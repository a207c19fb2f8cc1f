#include "compression/unpacker.h"

#include <algorithm>
#include <cstring>

namespace sparsepool::packed {

void PackedInput::seek(std::uint64_t position) {
    position_ = position;
    bytes_.clear();
    used_ = 0;
    fault_.reset();
}

std::span<const std::uint8_t> PackedInput::peek(std::size_t wanted) {
    constexpr std::size_t kRead = 1 << 17;
    const std::size_t there = bytes_.size() - used_;
    const std::uint64_t behind = size_ - position_ - there;  // in the file, not read yet
    if (there < wanted && behind != 0 && !fault_) {
        bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(used_));
        used_ = 0;
        const auto more = static_cast<std::size_t>(std::min<std::uint64_t>(behind, std::max(kRead, wanted - there)));
        bytes_.resize(there + more);
        fault_ = file_->read({bytes_.data() + there, more}, position_ + there);
        if (fault_) bytes_.resize(there);
    }
    return std::span<const std::uint8_t>(bytes_).subspan(used_);
}

void PackedInput::skip(std::size_t count) {
    used_ += count;
    position_ += count;
}

MakeUnpacker unpacker_of(std::span<const std::uint8_t> head) {
    const auto begins = [&](std::initializer_list<std::uint8_t> magic) {
        return head.size() >= magic.size() && std::equal(magic.begin(), magic.end(), head.begin());
    };
    if (begins({0x1F, 0x8B})) return make_gzip_unpacker;
    if (begins({0x28, 0xB5, 0x2F, 0xFD})) return make_zstd_unpacker;
    const bool skippable = head.size() >= 4 && (head[0] & 0xF0) == 0x50 && head[1] == 0x2A && head[2] == 0x4D;
    return skippable && head[3] == 0x18 ? make_zstd_unpacker : nullptr;
}

}  // namespace sparsepool::packed
