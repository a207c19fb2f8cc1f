#include "chess/formats/plain/native/format.h"

#include <memory>
#include <string>

#include "chess/native/files/codec.h"
#include "chess/native/formats/storable.h"

namespace sparsepool::plain {
namespace {

class Lines final : public chess::ScannedUnits {
  public:
    [[nodiscard]] const char* word() const override { return "position"; }
    // Returns where the position ends: behind the line e.
    [[nodiscard]] std::size_t find_end(std::string_view bytes, std::size_t begin) const override {
        std::size_t last_line = bytes.find(kEnd, begin);
        while (last_line != std::string_view::npos) {
            const std::size_t end = last_line + kEnd.size();
            const std::string_view line_end = bytes.substr(end, 2);
            if (line_end.starts_with('\n')) return end + 1;
            if (line_end == "\r\n") return end + 2;
            last_line = bytes.find(kEnd, last_line + 1);
        }
        return std::string_view::npos;
    }
};

class Writer final : public chess::EntryWriter {
  public:
    [[nodiscard]] std::string add(const chess::Entry& entry) override {
        if (const char* problem = chess::find_result_problem(entry)) return problem;
        count_changes(entry, 0, 65535);
        char fen[chess::kMaxFen];
        char move[chess::kMaxUci];
        append_line("fen", {fen, chess::write_fen(entry.position, entry.ply / 2U + 1, fen)});
        append_line("move", {move, chess::write_uci(entry.move, entry.position.chess960, move)});
        append_line("score", std::to_string(entry.score));
        append_line("ply", std::to_string(entry.ply));
        append_line("result", std::to_string(entry.result));
        append("e\n");
        ++entries_;
        return {};
    }
    void finish() override {}

  private:
    void append_line(std::string_view name, std::string_view value) {
        append(name);
        append(" ");
        append(value);
        append("\n");
    }

    void append(std::string_view text) { output_.insert(output_.end(), text.begin(), text.end()); }
};

class PlainCodec final : public chess::Codec {
  public:
    [[nodiscard]] const Units& units() const override { return units_; }
    [[nodiscard]] const chess::ScannedUnits* scanned_units() const override { return &units_; }
    [[nodiscard]] bool is_text() const override { return true; }
    [[nodiscard]] std::unique_ptr<chess::Walk> walk(std::string_view bytes,
                                                    const chess::ReadOptions& options) const override {
        return std::make_unique<chess::UnitWalk>(simd::kernels<Kernels>().walk, bytes, options);
    }
    [[nodiscard]] std::unique_ptr<chess::EntryWriter> make_writer() const override {
        return std::make_unique<Writer>();
    }

  private:
    Lines units_;
};

}  // namespace

const chess::Codec& codec() {
    static const PlainCodec instance;
    return instance;
}

}  // namespace sparsepool::plain
