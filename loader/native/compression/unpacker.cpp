#include "compression/unpacker.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "compression/libraries.h"

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

std::optional<Packing> packing_of(std::span<const std::uint8_t> head) {
    const auto begins = [&](std::initializer_list<std::uint8_t> magic) {
        return head.size() >= magic.size() && std::equal(magic.begin(), magic.end(), head.begin());
    };
    if (begins({0x1F, 0x8B})) return Packing{make_gzip_unpacker, zlib() == nullptr ? kNoZlib : nullptr};
    const bool skippable = head.size() >= 4 && (head[0] & 0xF0) == 0x50 && head[1] == 0x2A && head[2] == 0x4D;
    if (begins({0x28, 0xB5, 0x2F, 0xFD}) || (skippable && head[3] == 0x18)) {
        return Packing{make_zstd_unpacker, zstd() == nullptr ? kNoZstd : nullptr};
    }
    constexpr std::array<std::uint8_t, 6> kBlock = {0x31, 0x41, 0x59, 0x26, 0x53, 0x59};
    constexpr std::array<std::uint8_t, 6> kNoBlock = {0x17, 0x72, 0x45, 0x38, 0x50, 0x90};
    if (head.size() >= kMagicBytes && begins({'B', 'Z', 'h'}) &&
        (std::ranges::equal(head.subspan(4, 6), kBlock) || std::ranges::equal(head.subspan(4, 6), kNoBlock))) {
        return Packing{make_bzip2_unpacker, bzip2() == nullptr ? kNoBzip2 : nullptr};
    }
    return std::nullopt;
}

}  // namespace sparsepool::packed
