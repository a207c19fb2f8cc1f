#include <memory>
#include <string>

#include "chess/formats/lichess_evals/native/format.h"
#include "chess/formats/lichess_evals/native/position.h"
#include "chess/native/files/codec.h"
#include "chess/native/files/line_pieces.h"
#include "chess/native/files/line_walk.h"
#include "chess/native/formats/text_fields.h"

namespace sparsepool::lichess_evals {
namespace {

class EvaluationWalk final : public chess::LineWalk {
  public:
    using LineWalk::LineWalk;

  protected:
    [[nodiscard]] std::string read_line(std::string_view line, unsigned required_parts, chess::Entry& entry) override {
        return read_position(line, required_parts, entry);
    }
};

class EvaluationCodec final : public chess::LineCodec {
  public:
    [[nodiscard]] bool begins_a_file(
        std::string_view head) const override {  // the first line may be longer than `head`
        const auto has = [head](std::string_view name) { return head.find(name) != std::string_view::npos; };
        return chess::trim(chess::strip_line(head)).starts_with('{') && has("\"fen\"") && has("\"evals\"");
    }
    [[nodiscard]] std::unique_ptr<chess::Walk> walk(std::string_view bytes,
                                                    const chess::ReadOptions& options) const override {
        return std::make_unique<EvaluationWalk>(bytes, options);
    }
};

}  // namespace

const chess::Codec& codec() {
    static const EvaluationCodec instance;
    return instance;
}

}  // namespace sparsepool::lichess_evals
