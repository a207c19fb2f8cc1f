// zstd: frames one behind the other (RFC 8878), each a series of blocks. Only where blocks and frames end is read here.

#include <new>

#include "compression/libraries.h"
#include "compression/unpacker.h"

namespace sparsepool::packed {
namespace {

constexpr char kCut[] = "the file ends in the middle of a zstd frame";

// The library refuses frames that need more memory than an archive of somebody else's should take.
std::string describe(std::string error) {
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

    std::string next(PackedInput& input, std::size_t most, std::string& text) override {
        std::string fault = inside_ ? read_block(input, most, text) : begin_frame(input, text);
        position_ = input.position();
        return input.fault() ? std::string() : fault;
    }

    // Inside of a frame a block needs all before it.
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
        constexpr std::size_t kShort = 8;  // magic, and the size of what is skipped
        const auto head = input.peek(kShort);
        if (head.size() < kShort) return kCut;
        const auto word = [&](std::size_t at) {
            return std::uint32_t{head[at]} | std::uint32_t{head[at + 1]} << 8 | std::uint32_t{head[at + 2]} << 16 |
                   std::uint32_t{head[at + 3]} << 24;
        };
        if ((word(0) & ~0xFU) == 0x184D2A50U) {
            input.skip(kShort);
            for (std::uint64_t left = word(4); left != 0;) {
                const std::size_t part = std::min<std::uint64_t>(left, input.peek(1).size());
                if (part == 0) return kCut;
                input.skip(part);
                left -= part;
            }
            return {};
        }
        if (word(0) != 0xFD2FB528U) return "expected another zstd frame or the end of the file";
        const std::uint8_t descriptor = head[4];
        constexpr std::size_t kDictionary[] = {0, 1, 2, 4};
        constexpr std::size_t kContent[] = {0, 2, 4, 8};
        const bool single = (descriptor >> 5 & 1) != 0;
        const std::size_t content = descriptor >> 6 == 0 && single ? 1 : kContent[descriptor >> 6];
        const std::size_t size = 5 + (single ? 0 : 1) + kDictionary[descriptor & 3] + content;
        zstd_.reset_decoder(decoder_, Zstd::kResetSession);
        has_sum_ = (descriptor & 4) != 0;
        inside_ = true;
        return decode(input, size, 0, text);
    }

    std::string read_block(PackedInput& input, std::size_t most, std::string& text) {
        const auto head = input.peek(3);
        if (head.size() < 3) return kCut;
        const std::uint32_t word = std::uint32_t{head[0]} | std::uint32_t{head[1]} << 8 | std::uint32_t{head[2]} << 16;
        const bool last = (word & 1) != 0;
        const bool repeated = (word >> 1 & 3) == 1;
        const std::size_t size = 3 + (repeated ? 1 : word >> 3) + (last && has_sum_ ? 4 : 0);
        std::string fault = decode(input, size, most, text);
        if (last && fault.empty()) inside_ = false;
        return fault;
    }

    std::string decode(PackedInput& input, std::size_t size, std::size_t most, std::string& text) {
        const auto bytes = input.peek(size);
        if (bytes.size() < size) return kCut;
        ZstdInput in{bytes.data(), size, 0};
        while (true) {
            ZstdOutput out{out_.data(), out_.size(), 0};
            const std::size_t answer = zstd_.decode(decoder_, &out, &in);
            if (zstd_.is_error(answer) != 0) return describe(zstd_.error_name(answer));
            text.append(out_.data(), out.used);
            if (in.used == size && out.used < out.size) break;
            if (text.size() > most && most != 0) return "a piece of text has more than 1 GiB";
        }
        input.skip(size);
        return {};
    }

    const Zstd& zstd_ = *zstd();
    void* decoder_;
    std::string out_;
    bool inside_ = false;   // of a frame
    bool has_sum_ = false;  // behind its last block
    std::uint64_t position_ = 0;
};

}  // namespace

std::unique_ptr<Unpacker> make_zstd_unpacker() { return std::make_unique<ZstdUnpacker>(); }

}  // namespace sparsepool::packed
