// bzip2: streams one behind the other, as pbzip2 writes them too. Its library does not say where a block ends, so what
// is decoded at once is what a stretch of the file gives.

#include <algorithm>
#include <array>
#include <new>

#include "compression/libraries.h"
#include "compression/unpacker.h"

namespace sparsepool::packed {
namespace {

constexpr std::size_t kStretch = 4096;  // of the file
constexpr char kCut[] = "the file ends in the middle of a bzip2 stream";

class Bzip2Unpacker final : public Unpacker {
  public:
    ~Bzip2Unpacker() override { end_stream(); }

    [[nodiscard]] const char* name() const override { return "bzip2"; }
    [[nodiscard]] std::uint64_t position() const override { return position_; }
    [[nodiscard]] bool inside() const override { return inside_; }

    std::string next(PackedInput& input, std::size_t most, std::string& text) override {
        std::string fault = inside_ ? std::string() : begin_stream(input);
        if (fault.empty() && !input.fault()) fault = read_stretch(input, most, text);
        position_ = input.position();
        return input.fault() ? std::string() : fault;
    }

    // Inside of a stream decoding can't begin.
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
        const bool begun = head.size() >= 3 && head[0] == 'B' && head[1] == 'Z' && head[2] == 'h';
        if (!begun) return "expected another bzip2 stream or the end of the file";
        stream_ = {};
        if (bzip2_.begin(&stream_, 0, 0) != Bzip2::kOk) throw std::bad_alloc();
        inside_ = true;
        return {};
    }

    std::string read_stretch(PackedInput& input, std::size_t most, std::string& text) {
        std::array<char, 1 << 16> out;
        const auto bytes = input.peek(1);
        if (bytes.empty()) return kCut;
        const std::size_t size = std::min<std::size_t>(bytes.size(), kStretch - input.position() % kStretch);
        stream_.next_in = reinterpret_cast<const char*>(bytes.data());
        stream_.avail_in = static_cast<unsigned>(size);
        int answer = Bzip2::kOk;
        do {
            stream_.next_out = out.data();
            stream_.avail_out = out.size();
            answer = bzip2_.decode(&stream_);
            text.append(out.data(), out.size() - stream_.avail_out);
            if (answer == Bzip2::kMemoryError) throw std::bad_alloc();
            if (answer != Bzip2::kOk && answer != Bzip2::kStreamEnd) return "damaged";
            if (text.size() > most) return "a piece of text has more than 1 GiB";
        } while (answer == Bzip2::kOk && (stream_.avail_in != 0 || stream_.avail_out == 0));
        input.skip(size - stream_.avail_in);
        if (answer == Bzip2::kStreamEnd) end_stream();
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
