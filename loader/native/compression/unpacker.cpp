#include "compression/unpacker.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "compression/libraries.h"

namespace sparsepool::packed {

void PackedInput::seek(std::uint64_t position) {
    position_ = position;
    buffer_.clear();
    num_consumed_ = 0;
    fault_.reset();
}

// Fills the buffer from the file if it has fewer bytes than requested.
std::span<const std::uint8_t> PackedInput::peek(std::size_t min_size) {
    constexpr std::size_t kReadSize = 1 << 17;
    const std::size_t buffered = buffer_.size() - num_consumed_;
    const std::uint64_t unread = size_ - position_ - buffered;
    if (buffered < min_size && unread != 0 && !fault_) {
        buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(num_consumed_));
        num_consumed_ = 0;
        const std::size_t wanted = std::max(kReadSize, min_size - buffered);
        const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(unread, wanted));
        buffer_.resize(buffered + count);
        fault_ = file_->read({buffer_.data() + buffered, count}, position_ + buffered);
        if (fault_) buffer_.resize(buffered);
    }
    return std::span<const std::uint8_t>(buffer_).subspan(num_consumed_);
}

void PackedInput::skip(std::size_t count) {
    num_consumed_ += count;
    position_ += count;
}

std::optional<Packing> packing_of(std::span<const std::uint8_t> head) {
    const auto starts_with = [&](std::initializer_list<std::uint8_t> magic) {
        return head.size() >= magic.size() && std::equal(magic.begin(), magic.end(), head.begin());
    };
    if (starts_with({0x1F, 0x8B})) return Packing{make_gzip_unpacker, zlib() == nullptr ? kNoZlib : nullptr};
    // zstd: a frame, or a skippable frame with one of 16 magic numbers, 50 2A 4D 18 to 5F 2A 4D 18.
    const bool is_skippable =
        head.size() >= 4 && (head[0] & 0xF0) == 0x50 && head[1] == 0x2A && head[2] == 0x4D && head[3] == 0x18;
    if (starts_with({0x28, 0xB5, 0x2F, 0xFD}) || is_skippable) {
        return Packing{make_zstd_unpacker, zstd() == nullptr ? kNoZstd : nullptr};
    }
    // bzip2: "BZh", the size of blocks, then the magic number of a block or of the end of a stream without blocks.
    constexpr std::array<std::uint8_t, 6> kBlockMagic = {0x31, 0x41, 0x59, 0x26, 0x53, 0x59};
    constexpr std::array<std::uint8_t, 6> kEndMagic = {0x17, 0x72, 0x45, 0x38, 0x50, 0x90};
    if (head.size() >= kMagicBytes && starts_with({'B', 'Z', 'h'})) {
        const auto magic = head.subspan(4, 6);
        if (std::ranges::equal(magic, kBlockMagic) || std::ranges::equal(magic, kEndMagic)) {
            return Packing{make_bzip2_unpacker, bzip2() == nullptr ? kNoBzip2 : nullptr};
        }
    }
    return std::nullopt;
}

}  // namespace sparsepool::packed
