#include "chess/formats/text/native/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "chess/native/board/fen.h"
#include "chess/native/files/codec.h"
#include "chess/native/files/line_pieces.h"
#include "chess/native/formats/storable.h"

namespace sparsepool::text {
namespace {

constexpr std::array<std::string_view, 3> kResults = {"0.0", "0.5", "1.0"};  // by result + 1

char* append(char* end, std::string_view text) { return std::ranges::copy(text, end).out; }

class Writer final : public chess::EntryWriter {
  public:
    // Writes `FEN | score | result`, both White's.
    [[nodiscard]] std::string add(const chess::Entry& entry) override {
        std::int16_t white_score = 0;
        if (const char* problem = chess::to_white_score(entry, white_score)) return problem;
        count_unscored(entry);
        char line[chess::kMaxFen + 16];
        char* end = chess::write_fen(entry.position, entry.ply / 2U + 1, line, chess::count_fen_fields(entry));
        end = append(end, " | ");
        end = std::to_chars(end, end + 6, white_score).ptr;
        end = append(end, " | ");
        const std::int8_t result = chess::white_result(entry);
        end = append(end, result == chess::kNoResult ? std::string_view("*") : kResults.data()[result + 1]);
        end = append(end, "\n");
        output_.insert(output_.end(), line, end);
        ++entries_;
        return {};
    }
    void finish() override {}
};

class TextCodec final : public chess::LineCodec {
  public:
    [[nodiscard]] std::unique_ptr<chess::Walk> walk(std::string_view bytes,
                                                    const chess::ReadOptions& options) const override {
        return std::make_unique<chess::UnitWalk>(simd::kernels<Kernels>().walk, bytes, options);
    }
    [[nodiscard]] std::unique_ptr<chess::EntryWriter> make_writer() const override {
        return std::make_unique<Writer>();
    }
};

}  // namespace

const chess::Codec& codec() {
    static const TextCodec instance;
    return instance;
}

}  // namespace sparsepool::text
