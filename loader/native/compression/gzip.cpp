// gzip: a file is a series of members (RFC 1952), each with a header, a series of deflate blocks (RFC 1951) and a
// trailer. zlib decodes the blocks and stops at the end of each. Header and trailer are read here, so that decoding can
// begin inside a member.

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "compression/libraries.h"
#include "compression/unpacker.h"

namespace sparsepool::packed {
namespace {

constexpr std::size_t kWindow = 32768;
constexpr int kRaw = -15;             // windowBits of deflate without header and trailer
constexpr char kVersion[] = "1.2.8";  // zlib compares the first number, and the size of the stream
constexpr char kTruncated[] = "the file ends in the middle of a gzip member";

std::uint32_t little_endian(std::span<const std::uint8_t> bytes) {
    return std::uint32_t{bytes[0]} | std::uint32_t{bytes[1]} << 8 | std::uint32_t{bytes[2]} << 16 |
           std::uint32_t{bytes[3]} << 24;
}

class GzipUnpacker final : public Unpacker {
  public:
    GzipUnpacker() {
        if (zlib_.inflate_init(&stream_, kRaw, kVersion, sizeof stream_) != Zlib::kOk) throw std::bad_alloc();
    }
    ~GzipUnpacker() override { zlib_.inflate_end(&stream_); }

    [[nodiscard]] const char* name() const override { return "gzip"; }
    [[nodiscard]] std::uint64_t position() const override { return position_ - (num_unused_bits() != 0 ? 1 : 0); }

    [[nodiscard]] bool inside() const override { return inside_; }

    std::string decode_next(PackedInput& input, std::size_t max_size, std::string& text) override {
        std::string fault = inside_ ? read_block(input, max_size, text) : read_header(input);
        position_ = input.position();
        return input.fault() ? std::string() : fault;
    }

    [[nodiscard]] std::optional<UnpackerState> state() const override {
        UnpackerState state{position_, inside_, num_unused_bits(), checksum_, length_, {}};
        if (!inside_) return state;
        std::array<std::uint8_t, kWindow> window;
        unsigned size = 0;
        zlib_.inflate_get_dictionary(const_cast<ZlibStream*>(&stream_), window.data(), &size);
        state.window.assign(reinterpret_cast<const char*>(window.data()), size);
        return state;
    }

    void restore(const UnpackerState& state, PackedInput& input) override {
        zlib_.inflate_reset(&stream_, kRaw);
        stream_.data_type = 0;
        inside_ = state.inside;
        checksum_ = state.checksum;
        length_ = state.length;
        input.seek(state.position - (state.num_unused_bits != 0 ? 1 : 0));
        if (state.num_unused_bits != 0) {  // the block begins inside a byte, in its upper bits
            const auto byte = input.peek(1);
            if (!byte.empty()) {
                const int unused_bits = byte[0] >> (8 - state.num_unused_bits);
                zlib_.inflate_prime(&stream_, static_cast<int>(state.num_unused_bits), unused_bits);
                input.skip(1);
            }
        }
        if (inside_) {
            zlib_.inflate_set_dictionary(&stream_, reinterpret_cast<const std::uint8_t*>(state.window.data()),
                                         static_cast<unsigned>(state.window.size()));
        }
        num_primed_bits_ = state.num_unused_bits;
        position_ = state.position;
    }

  private:
    // How many bits of the last byte read no block has used. zlib counts them in the low bits of data_type.
    [[nodiscard]] unsigned num_unused_bits() const {
        if (!inside_) return 0;
        return num_primed_bits_ | (static_cast<unsigned>(stream_.data_type) & 7U);
    }

    // Reads the header of a member (RFC 1952, 2.3): the bytes 1F 8B, method, flags, time (4), extra flags, system;
    // then, as far as the flags say so, an extra field with its size (2), name and comment that end with a zero, a
    // checksum (2).
    std::string read_header(PackedInput& input) {
        constexpr std::uint8_t kHasChecksum = 2;
        constexpr std::uint8_t kHasExtra = 4;
        constexpr std::uint8_t kHasName = 8;
        constexpr std::uint8_t kHasComment = 16;
        constexpr std::uint8_t kDeflate = 8;
        constexpr std::size_t kFixedSize = 10;
        if (skip_padding(input)) return {};
        const auto head = input.peek(kFixedSize);
        const bool is_member = head[0] == 0x1F && (head.size() == 1 || head[1] == 0x8B);
        if (!is_member) return "expected another gzip member or the end of the file";
        if (head.size() < kFixedSize) return kTruncated;
        const std::uint8_t method = head[2];
        const std::uint8_t flags = head[3];
        if (method != kDeflate) return "an unknown method of compression, " + std::to_string(method);
        input.skip(kFixedSize);
        if ((flags & kHasExtra) != 0) {
            const auto size = input.peek(2);
            if (size.size() < 2) return kTruncated;
            if (!skip(input, std::size_t{2} + size[0] + 256 * size[1])) return kTruncated;
        }
        if ((flags & kHasName) != 0 && !skip_text(input)) return kTruncated;
        if ((flags & kHasComment) != 0 && !skip_text(input)) return kTruncated;
        if ((flags & kHasChecksum) != 0 && !skip(input, 2)) return kTruncated;
        zlib_.inflate_reset(&stream_, kRaw);
        stream_.data_type = 0;
        num_primed_bits_ = 0;
        inside_ = true;
        checksum_ = static_cast<std::uint32_t>(zlib_.crc32(0, nullptr, 0));
        length_ = 0;
        return {};
    }

    // Skips the zeros with which tapes and some tools fill up a file. True if the file ends after them.
    static bool skip_padding(PackedInput& input) {
        bool has_padding = false;
        while (true) {
            const auto bytes = input.peek(1);
            if (bytes.empty()) return has_padding;
            if (input.position() == 0 || bytes[0] != 0) return false;
            input.skip(1);
            has_padding = true;
        }
    }

    static bool skip(PackedInput& input, std::size_t count) {
        if (input.peek(count).size() < count) return false;
        input.skip(count);
        return true;
    }

    // Skips a text and the zero that ends it. False if the file ends before.
    static bool skip_text(PackedInput& input) {
        while (true) {
            const auto bytes = input.peek(1);
            if (bytes.empty()) return false;
            const auto zero = std::ranges::find(bytes, 0);
            const bool has_zero = zero != bytes.end();
            input.skip(static_cast<std::size_t>(zero - bytes.begin()) + (has_zero ? 1 : 0));
            if (has_zero) return true;
        }
    }

    std::string read_block(PackedInput& input, std::size_t max_size, std::string& text) {
        // Bits of data_type (zlib.h, inflate): this is the last block of the member, and this is the end of a block.
        constexpr unsigned kIsLastBlock = 64;
        constexpr unsigned kAtBlockEnd = 128;
        std::array<std::uint8_t, 1 << 16> out;
        num_primed_bits_ = 0;
        while (true) {
            const auto bytes = input.peek(1);
            stream_.next_in = bytes.data();
            stream_.avail_in = static_cast<unsigned>(bytes.size());
            stream_.next_out = out.data();
            stream_.avail_out = out.size();
            const int status = zlib_.inflate(&stream_, Zlib::kBlock);
            const std::size_t num_written = out.size() - stream_.avail_out;
            const std::size_t num_read = bytes.size() - stream_.avail_in;
            input.skip(num_read);
            checksum_ =
                static_cast<std::uint32_t>(zlib_.crc32(checksum_, out.data(), static_cast<unsigned>(num_written)));
            length_ += static_cast<std::uint32_t>(num_written);
            text.append(reinterpret_cast<const char*>(out.data()), num_written);
            if (status == Zlib::kStreamEnd) return check_trailer(input);
            if (status == Zlib::kMemoryError) throw std::bad_alloc();
            if (status != Zlib::kOk && status != Zlib::kBufferError) {
                return stream_.message != nullptr ? stream_.message : "damaged";
            }
            if (num_written == 0 && num_read == 0 && bytes.empty()) return kTruncated;
            if (text.size() > max_size) return "a piece of text has more than 1 GiB";
            const auto type = static_cast<unsigned>(stream_.data_type);
            if ((type & kAtBlockEnd) != 0 && (type & kIsLastBlock) == 0) return {};
        }
    }

    // Reads the trailer of a member: CRC-32 and length of its decoded bytes.
    std::string check_trailer(PackedInput& input) {
        inside_ = false;
        const auto trailer = input.peek(8);
        if (trailer.size() < 8) return kTruncated;
        if (little_endian(trailer) != checksum_ || little_endian(trailer.subspan(4)) != length_) {
            return "the checksum of a gzip member is wrong: what was decoded before it may be, too";
        }
        input.skip(8);
        return {};
    }

    const Zlib& zlib_ = *zlib();
    ZlibStream stream_{};
    bool inside_ = false;
    unsigned num_primed_bits_ = 0;  // given to zlib by `restore`, until the next block is read
    std::uint64_t position_ = 0;    // of the input
    std::uint32_t checksum_ = 0;    // CRC-32 of the member so far
    std::uint32_t length_ = 0;      // of the member so far, modulo 2^32
};

}  // namespace

std::unique_ptr<Unpacker> make_gzip_unpacker() { return std::make_unique<GzipUnpacker>(); }

}  // namespace sparsepool::packed
