// gzip: members one behind the other (RFC 1952), each a series of deflate's blocks (RFC 1951). zlib decodes the blocks,
// and stops at the end of each; header and trailer are read here, so that decoding can begin inside of a member.

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
constexpr char kCut[] = "the file ends in the middle of a gzip member";

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
    [[nodiscard]] std::uint64_t position() const override { return position_ - (bits() != 0 ? 1 : 0); }

    [[nodiscard]] bool inside() const override { return inside_; }

    std::string next(PackedInput& input, std::size_t most, std::string& text) override {
        std::string fault = inside_ ? read_block(input, most, text) : begin_member(input);
        position_ = input.position();
        return input.fault() ? std::string() : fault;
    }

    [[nodiscard]] std::optional<UnpackerState> state() const override {
        UnpackerState state{position_, inside_, bits(), sum_, length_, {}};
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
        sum_ = state.sum;
        length_ = state.length;
        input.seek(state.position - (state.bits != 0 ? 1 : 0));
        if (state.bits != 0) {
            const auto byte = input.peek(1);
            if (!byte.empty()) {
                zlib_.inflate_prime(&stream_, static_cast<int>(state.bits), byte[0] >> (8 - state.bits));
                input.skip(1);
            }
        }
        if (inside_) {
            zlib_.inflate_set_dictionary(&stream_, reinterpret_cast<const std::uint8_t*>(state.window.data()),
                                         static_cast<unsigned>(state.window.size()));
        }
        primed_ = state.bits;
        position_ = state.position;
    }

  private:
    // Of the last byte read, those that no block has used.
    [[nodiscard]] unsigned bits() const {
        return inside_ ? primed_ | (static_cast<unsigned>(stream_.data_type) & 7U) : 0;
    }

    std::string begin_member(PackedInput& input) {
        constexpr std::uint8_t kHasSum = 2;
        constexpr std::uint8_t kExtra = 4;
        constexpr std::uint8_t kName = 8;
        constexpr std::uint8_t kComment = 16;
        constexpr std::size_t kFixed = 10;
        if (skip_zeros(input)) return {};
        const auto head = input.peek(kFixed);
        const bool begun = head[0] == 0x1F && (head.size() == 1 || head[1] == 0x8B);
        if (!begun) return "expected another gzip member or the end of the file";
        if (head.size() < kFixed) return kCut;
        if (head[2] != 8) return "an unknown method of compression, " + std::to_string(head[2]);
        const std::uint8_t flags = head[3];
        input.skip(kFixed);
        if ((flags & kExtra) != 0) {
            const auto size = input.peek(2);
            if (size.size() < 2) return kCut;
            if (!skip(input, std::size_t{2} + size[0] + 256 * size[1])) return kCut;
        }
        for (const std::uint8_t text : {kName, kComment}) {
            if ((flags & text) != 0 && !skip_text(input)) return kCut;
        }
        if ((flags & kHasSum) != 0 && !skip(input, 2)) return kCut;
        zlib_.inflate_reset(&stream_, kRaw);
        stream_.data_type = 0;
        primed_ = 0;
        inside_ = true;
        sum_ = static_cast<std::uint32_t>(zlib_.crc32(0, nullptr, 0));
        length_ = 0;
        return {};
    }

    // Tapes and some tools fill up with zeros. True if there is nothing else.
    static bool skip_zeros(PackedInput& input) {
        bool some = false;
        while (true) {
            const auto bytes = input.peek(1);
            if (bytes.empty()) return some;
            if (input.position() == 0 || bytes[0] != 0) return false;
            input.skip(1);
            some = true;
        }
    }

    static bool skip(PackedInput& input, std::size_t count) {
        if (input.peek(count).size() < count) return false;
        input.skip(count);
        return true;
    }

    static bool skip_text(PackedInput& input) {
        while (true) {
            const auto bytes = input.peek(1);
            if (bytes.empty()) return false;
            const auto end = std::ranges::find(bytes, 0);
            const bool found = end != bytes.end();
            input.skip(static_cast<std::size_t>(end - bytes.begin()) + (found ? 1 : 0));
            if (found) return true;
        }
    }

    std::string read_block(PackedInput& input, std::size_t most, std::string& text) {
        constexpr unsigned kLast = 64;  // of data_type (zlib.h, inflate)
        constexpr unsigned kAtEnd = 128;
        std::array<std::uint8_t, 1 << 16> out;
        primed_ = 0;
        while (true) {
            const auto bytes = input.peek(1);
            stream_.next_in = bytes.data();
            stream_.avail_in = static_cast<unsigned>(bytes.size());
            stream_.next_out = out.data();
            stream_.avail_out = out.size();
            const int answer = zlib_.inflate(&stream_, Zlib::kBlock);
            const std::size_t made = out.size() - stream_.avail_out;
            const std::size_t taken = bytes.size() - stream_.avail_in;
            input.skip(taken);
            sum_ = static_cast<std::uint32_t>(zlib_.crc32(sum_, out.data(), static_cast<unsigned>(made)));
            length_ += static_cast<std::uint32_t>(made);
            text.append(reinterpret_cast<const char*>(out.data()), made);
            if (answer == Zlib::kStreamEnd) return end_member(input);
            if (answer == Zlib::kMemoryError) throw std::bad_alloc();
            if (answer != Zlib::kOk && answer != Zlib::kBufferError)
                return stream_.message != nullptr ? stream_.message : "damaged";
            if (made == 0 && taken == 0 && bytes.empty()) return kCut;
            if (text.size() > most) return "a piece of text has more than 1 GiB";
            const auto type = static_cast<unsigned>(stream_.data_type);
            if ((type & kAtEnd) != 0 && (type & kLast) == 0) return {};
        }
    }

    std::string end_member(PackedInput& input) {
        inside_ = false;
        const auto trailer = input.peek(8);
        if (trailer.size() < 8) return kCut;
        if (little_endian(trailer) != sum_ || little_endian(trailer.subspan(4)) != length_) {
            return "the checksum of a gzip member is wrong: what was decoded before it may be, too";
        }
        input.skip(8);
        return {};
    }

    const Zlib& zlib_ = *zlib();
    ZlibStream stream_{};
    bool inside_ = false;
    unsigned primed_ = 0;         // bits, until the next block is read
    std::uint64_t position_ = 0;  // of the input
    std::uint32_t sum_ = 0;       // of the member so far
    std::uint32_t length_ = 0;    // modulo 2^32
};

}  // namespace

std::unique_ptr<Unpacker> make_gzip_unpacker() { return std::make_unique<GzipUnpacker>(); }

}  // namespace sparsepool::packed
