// zstd: a file is a series of frames (RFC 8878), each a header and a series of blocks. The library decodes; only the
// sizes of headers and blocks are read here.

#include <algorithm>
#include <new>
#include <span>

#include "compression/libraries.h"
#include "compression/unpacker.h"

namespace sparsepool::packed {
namespace {

constexpr char kTruncated[] = "the file ends in the middle of a zstd frame";

std::uint32_t little_endian(std::span<const std::uint8_t> bytes) {
    return std::uint32_t{bytes[0]} | std::uint32_t{bytes[1]} << 8 | std::uint32_t{bytes[2]} << 16 |
           std::uint32_t{bytes[3]} << 24;
}

// Bytes of a frame header (RFC 8878, 3.1.1.1): magic (4), descriptor (1), then window descriptor, dictionary ID and
// content size, as far as the descriptor says so.
std::size_t header_size(std::uint8_t descriptor) {
    constexpr std::size_t kDictionaryBytes[] = {0, 1, 2, 4};  // by bits 0 and 1
    constexpr std::size_t kContentBytes[] = {0, 2, 4, 8};     // by bits 6 and 7
    const bool is_single_segment = (descriptor >> 5 & 1) != 0;
    const std::size_t window_bytes = is_single_segment ? 0 : 1;
    std::size_t content_bytes = kContentBytes[descriptor >> 6];
    if (content_bytes == 0 && is_single_segment) content_bytes = 1;
    return 5 + window_bytes + kDictionaryBytes[descriptor & 3] + content_bytes;
}

// The library refuses frames that need more memory than a file from somewhere else should get.
std::string describe_error(std::string error) {
    if (error.find("too much memory") == std::string::npos) return error;
    return "the frame has a window of more than 128 MiB (zstd --long=28 or more): write it anew, with "
           "`zstd -dc --long=31 FILE | zstd -o NEW`";
}

class ZstdUnpacker final : public Unpacker {
  public:
    ZstdUnpacker() : decoder_(zstd_.make_decoder()) {
        if (decoder_ == nullptr) throw std::bad_alloc();
        out_.resize(zstd_.decoded_size());
    }
    ~ZstdUnpacker() override { zstd_.free_decoder(decoder_); }

    [[nodiscard]] const char* name() const override { return "zstd"; }
    [[nodiscard]] std::uint64_t position() const override { return position_; }

    [[nodiscard]] bool inside() const override { return inside_; }

    std::string decode_next(PackedInput& input, std::size_t max_size, std::string& text) override {
        std::string fault = inside_ ? read_block(input, max_size, text) : begin_frame(input, text);
        position_ = input.position();
        return input.fault() ? std::string() : fault;
    }

    // Decoding can't begin inside a frame: a block needs all blocks before it.
    [[nodiscard]] std::optional<UnpackerState> state() const override {
        if (inside_) return std::nullopt;
        UnpackerState state;
        state.position = position_;
        return state;
    }

    void restore(const UnpackerState& state, PackedInput& input) override {
        inside_ = false;
        position_ = state.position;
        input.seek(state.position);
    }

  private:
    std::string begin_frame(PackedInput& input, std::string& text) {
        constexpr std::uint32_t kMagic = 0xFD2FB528U;
        constexpr std::uint32_t kSkippableMagic = 0x184D2A50U;  // and the 15 numbers above it
        constexpr std::uint8_t kHasChecksum = 4;
        constexpr std::size_t kMinSize = 8;  // of a skippable frame: magic and size
        const auto head = input.peek(kMinSize);
        if (head.size() < kMinSize) return kTruncated;
        const std::uint32_t magic = little_endian(head);
        if ((magic & ~0xFU) == kSkippableMagic) {
            const std::uint32_t size = little_endian(head.subspan(4));
            input.skip(kMinSize);
            return skip(input, size) ? "" : kTruncated;
        }
        if (magic != kMagic) return "expected another zstd frame or the end of the file";
        const std::uint8_t descriptor = head[4];
        zstd_.reset_decoder(decoder_, Zstd::kResetSession);
        has_checksum_ = (descriptor & kHasChecksum) != 0;
        inside_ = true;
        return decode(input, header_size(descriptor), 0, text);
    }

    // Skips bytes of the file. False if it has not so many.
    static bool skip(PackedInput& input, std::uint64_t count) {
        while (count != 0) {
            const std::size_t part = std::min<std::uint64_t>(count, input.peek(1).size());
            if (part == 0) return false;
            input.skip(part);
            count -= part;
        }
        return true;
    }

    // Reads a block (RFC 8878, 3.1.1.2). Its header has 3 bytes: bit 0 marks the last block of the frame, bits 1 and 2
    // are the type, the others are the size. A block of type 1 is one byte that is repeated.
    std::string read_block(PackedInput& input, std::size_t max_size, std::string& text) {
        constexpr std::size_t kHeaderSize = 3;
        constexpr std::size_t kChecksumSize = 4;
        const auto head = input.peek(kHeaderSize);
        if (head.size() < kHeaderSize) return kTruncated;
        const std::uint32_t header =
            std::uint32_t{head[0]} | std::uint32_t{head[1]} << 8 | std::uint32_t{head[2]} << 16;
        const bool is_last = (header & 1) != 0;
        const bool is_repeated_byte = (header >> 1 & 3) == 1;
        std::size_t size = kHeaderSize + (is_repeated_byte ? 1 : header >> 3);
        if (is_last && has_checksum_) size += kChecksumSize;
        std::string fault = decode(input, size, max_size, text);
        if (is_last && fault.empty()) inside_ = false;
        return fault;
    }

    // Decodes the next `size` bytes of the file. `max_size`: of the text, or 0 for no limit.
    std::string decode(PackedInput& input, std::size_t size, std::size_t max_size, std::string& text) {
        const auto bytes = input.peek(size);
        if (bytes.size() < size) return kTruncated;
        ZstdInput in{bytes.data(), size, 0};
        while (true) {
            ZstdOutput out{out_.data(), out_.size(), 0};
            const std::size_t status = zstd_.decode(decoder_, &out, &in);
            if (zstd_.is_error(status) != 0) return describe_error(zstd_.error_name(status));
            text.append(out_.data(), out.used);
            if (in.used == size && out.used < out.size) break;
            if (text.size() > max_size && max_size != 0) return "a piece of text has more than 1 GiB";
        }
        input.skip(size);
        return {};
    }

    const Zstd& zstd_ = *zstd();
    void* decoder_;
    std::string out_;
    bool inside_ = false;        // of a frame
    bool has_checksum_ = false;  // after the last block of the frame
    std::uint64_t position_ = 0;
};

}  // namespace

std::unique_ptr<Unpacker> make_zstd_unpacker() { return std::make_unique<ZstdUnpacker>(); }

}  // namespace sparsepool::packed
