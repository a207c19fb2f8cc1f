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
    [[nodiscard]] std::size_t find_end(std::string_view bytes, std::size_t begin) const override {
        for (std::size_t at = bytes.find(kEnd, begin); at != std::string_view::npos; at = bytes.find(kEnd, at + 1)) {
            const std::string_view behind = bytes.substr(at + kEnd.size(), 2);
            if (behind.starts_with('\n')) return at + kEnd.size() + 1;
            if (behind == "\r\n") return at + kEnd.size() + 2;
        }
        return std::string_view::npos;
    }
};

class Writer final : public chess::EntryWriter {
  public:
    [[nodiscard]] std::string add(const chess::Entry& entry) override {
        if (const char* wrong = chess::find_result_problem(entry)) return wrong;
        count_changes(entry, 0, 65535);
        char fen[chess::kMaxFen];
        char move[chess::kMaxUci];
        put("fen ", {fen, chess::write_fen(entry.position, entry.ply / 2U + 1, fen)});
        put("\nmove ", {move, chess::write_uci(entry.move, entry.position.chess960, move)});
        put("\nscore ", std::to_string(entry.score));
        put("\nply ", std::to_string(entry.ply));
        put("\nresult ", std::to_string(entry.result));
        put("\ne\n", {});
        ++entries_;
        return {};
    }
    void finish() override {}

  private:
    void put(std::string_view name, std::string_view value) {
        output_.insert(output_.end(), name.begin(), name.end());
        output_.insert(output_.end(), value.begin(), value.end());
    }
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
