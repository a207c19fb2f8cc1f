#include <algorithm>
#include <memory>
#include <string>

#include "chess/formats/fen_csv/native/columns.h"
#include "chess/formats/fen_csv/native/format.h"
#include "chess/native/files/codec.h"
#include "chess/native/files/line_pieces.h"
#include "chess/native/files/line_walk.h"
#include "chess/native/formats/text_fields.h"

namespace sparsepool::fen_csv {
namespace {

// A walk through rows. A line that repeats the header is ignored: the file was concatenated from others.
class RowWalk final : public chess::LineWalk {
  public:
    RowWalk(std::string_view header, std::string_view bytes, const chess::ReadOptions& options)
        : LineWalk(bytes, options), header_(header), columns_(header) {
        if (!header.empty() && !columns_.fault().empty()) set_damage(columns_.fault());
    }

  protected:
    [[nodiscard]] bool is_ignored(std::string_view line) const override { return line == header_; }
    [[nodiscard]] std::string read_line(std::string_view line, unsigned required_parts, chess::Entry& entry) override {
        return columns_.read(line, required_parts, entry);
    }

  private:
    std::string header_;
    Columns columns_;
};

class CsvCodec final : public chess::LineCodec {
  public:
    [[nodiscard]] bool has_header() const override { return true; }
    [[nodiscard]] bool begins_a_file(std::string_view head) const override { return looks_like_columns(head); }
    // The header is the first line that is not blank.
    [[nodiscard]] std::string_view header_in(std::string_view beginning) const override {
        std::size_t begin = 0;
        while (begin < beginning.size()) {
            const std::size_t end = std::min(beginning.find('\n', begin), beginning.size());
            const std::string_view line = chess::strip_line(beginning.substr(begin, end - begin));
            if (!chess::trim(line).empty()) return line;
            begin = end + 1;
        }
        return {};
    }
    [[nodiscard]] std::unique_ptr<chess::Walk> walk(std::string_view bytes,
                                                    const chess::ReadOptions& options) const override {
        return walk_under(header_in(bytes), bytes, options);
    }
    [[nodiscard]] std::unique_ptr<chess::Walk> walk_under(std::string_view header, std::string_view bytes,
                                                          const chess::ReadOptions& options) const override {
        return std::make_unique<RowWalk>(header, bytes, options);
    }
};

}  // namespace

const chess::Codec& codec() {
    static const CsvCodec instance;
    return instance;
}

}  // namespace sparsepool::fen_csv
