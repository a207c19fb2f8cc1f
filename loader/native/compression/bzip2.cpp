// bzip2: a file is a series of streams. The library does not tell where a block ends, so one step decodes what the next
// 4096 bytes of the file give.

#include <algorithm>
#include <array>
#include <new>

#include "compression/libraries.h"
#include "compression/unpacker.h"

namespace sparsepool::packed {
namespace {

constexpr std::size_t kStepBytes = 4096;  // of the file
constexpr char kTruncated[] = "the file ends in the middle of a bzip2 stream";

class Bzip2Unpacker final : public Unpacker {
  public:
    ~Bzip2Unpacker() override { end_stream(); }

    [[nodiscard]] const char* name() const override { return "bzip2"; }
    [[nodiscard]] std::uint64_t position() const override { return position_; }
    [[nodiscard]] bool inside() const override { return inside_; }

    std::string decode_next(PackedInput& input, std::size_t max_size, std::string& text) override {
        std::string fault;
        if (!inside_) fault = begin_stream(input);
        if (fault.empty() && !input.fault()) fault = decode_step(input, max_size, text);
        position_ = input.position();
        return input.fault() ? std::string() : fault;
    }

    // Decoding can't begin inside a stream.
    [[nodiscard]] std::optional<UnpackerState> state() const override {
        if (inside_) return std::nullopt;
        UnpackerState state;
        state.position = position_;
        return state;
    }

    void restore(const UnpackerState& state, PackedInput& input) override {
        end_stream();
        position_ = state.position;
        input.seek(state.position);
    }

  private:
    std::string begin_stream(PackedInput& input) {
        const auto head = input.peek(4);
        const bool is_stream = head.size() >= 3 && head[0] == 'B' && head[1] == 'Z' && head[2] == 'h';
        if (!is_stream) return "expected another bzip2 stream or the end of the file";
        stream_ = {};
        if (bzip2_.begin(&stream_, 0, 0) != Bzip2::kOk) throw std::bad_alloc();
        inside_ = true;
        return {};
    }

    // Decodes the bytes up to the next multiple of kStepBytes, or to the end of the stream.
    std::string decode_step(PackedInput& input, std::size_t max_size, std::string& text) {
        std::array<char, 1 << 16> out;
        const auto bytes = input.peek(1);
        if (bytes.empty()) return kTruncated;
        const std::size_t size = std::min<std::size_t>(bytes.size(), kStepBytes - input.position() % kStepBytes);
        stream_.next_in = reinterpret_cast<const char*>(bytes.data());
        stream_.avail_in = static_cast<unsigned>(size);
        int status = Bzip2::kOk;
        bool has_more = true;
        while (status == Bzip2::kOk && has_more) {
            stream_.next_out = out.data();
            stream_.avail_out = out.size();
            status = bzip2_.decode(&stream_);
            text.append(out.data(), out.size() - stream_.avail_out);
            if (status == Bzip2::kMemoryError) throw std::bad_alloc();
            if (status != Bzip2::kOk && status != Bzip2::kStreamEnd) return "damaged";
            if (text.size() > max_size) return "a piece of text has more than 1 GiB";
            has_more = stream_.avail_in != 0 || stream_.avail_out == 0;
        }
        input.skip(size - stream_.avail_in);
        if (status == Bzip2::kStreamEnd) end_stream();
        return {};
    }

    void end_stream() {
        if (inside_) bzip2_.end(&stream_);
        inside_ = false;
    }

    const Bzip2& bzip2_ = *bzip2();
    Bzip2Stream stream_{};
    bool inside_ = false;
    std::uint64_t position_ = 0;
};

}  // namespace

std::unique_ptr<Unpacker> make_bzip2_unpacker() { return std::make_unique<Bzip2Unpacker>(); }

}  // namespace sparsepool::packed
