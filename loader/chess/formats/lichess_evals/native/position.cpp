#include "chess/formats/lichess_evals/native/position.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "chess/formats/lichess_evals/native/json.h"
#include "chess/native/formats/mates.h"
#include "chess/native/formats/pseudo_legal.h"
#include "chess/native/formats/text_fields.h"

namespace sparsepool::lichess_evals {
namespace {

struct Variation {
    std::optional<std::int64_t> centipawns;
    std::optional<std::int64_t> mate;  // in moves
    std::string_view line;             // UCI, castling as king takes rook
};

struct Evaluation {
    std::int64_t depth = -1;
    std::int64_t knodes = -1;
    bool has_variation = false;
    Variation first;
};

[[nodiscard]] std::optional<std::int64_t> number_or_null(Json& json) {
    if (json.null()) return std::nullopt;
    return json.number();
}

[[nodiscard]] Variation read_variation(Json& json) {
    Variation read;
    json.object([&](std::string_view name) {
        if (name == "cp") {
            read.centipawns = number_or_null(json);
        } else if (name == "mate") {
            read.mate = number_or_null(json);
        } else if (name == "line") {
            read.line = json.string();
        } else {
            json.skip();
        }
    });
    return read;
}

[[nodiscard]] Evaluation read_evaluation(Json& json) {
    Evaluation read;
    json.object([&](std::string_view name) {
        if (name == "depth") {
            read.depth = json.number();
        } else if (name == "knodes") {
            read.knodes = json.number();
        } else if (name == "pvs") {
            json.array([&] {
                const Variation variation = read_variation(json);
                if (!read.has_variation) read.first = variation;
                read.has_variation = true;
            });
        } else {
            json.skip();
        }
    });
    return read;
}

// White's score of a position, which may be none.
[[nodiscard]] std::string read_score(const Variation& variation, chess::Entry& entry) {
    const unsigned side = entry.position.side;
    std::int16_t white = chess::kNoScore;
    if (variation.centipawns.has_value() == variation.mate.has_value()) {
        return "the first of the pvs must have a cp or a mate, and not both";
    }
    if (variation.centipawns) {
        constexpr std::int64_t kMost = chess::kMaxPawnScore;
        white = static_cast<std::int16_t>(std::clamp(*variation.centipawns, -kMost, kMost));
    } else {
        const std::int64_t moves =
            std::clamp<std::int64_t>(*variation.mate, -chess::kMaxMatePlies, chess::kMaxMatePlies);
        const unsigned winner = moves == 0 ? side ^ 1U : moves < 0 ? unsigned{chess::kBlack} : unsigned{chess::kWhite};
        white = chess::white_mate_score(winner, static_cast<int>(moves < 0 ? -moves : moves), side);
    }
    return chess::convert_score_view(white, side, entry.score) ? std::string() : chess::kBadScore;
}

}  // namespace

std::string read_position(std::string_view line, unsigned required_parts, chess::Entry& entry) {
    Json json(line);
    std::optional<std::string> fen;
    Evaluation best;
    bool has_evaluations = false;
    json.object([&](std::string_view name) {
        if (name == "fen") {
            fen = json.string();
        } else if (name == "evals") {
            has_evaluations = true;
            json.array([&] {
                const Evaluation one = read_evaluation(json);
                const bool better = one.depth != best.depth ? one.depth > best.depth : one.knodes > best.knodes;
                if (one.has_variation && (!best.has_variation || better)) best = one;
            });
        } else {
            json.skip();
        }
    });
    json.end();
    if (!json.good())
        return "byte " + std::to_string(json.offset() + 1) + ": this is no object of JSON as Lichess has it";
    if (!fen) return "the object has no fen";
    if (!has_evaluations) return "the object has no evals";
    for (std::size_t at = fen->find("\\/"); at != std::string::npos; at = fen->find("\\/", at)) fen->erase(at, 1);
    std::string wrong = chess::read_fen(*fen, required_parts, entry);
    if (!wrong.empty()) return wrong;
    entry.score = chess::kNoScore;
    entry.result = chess::kNoResult;
    if (!best.has_variation) return {};
    const std::string_view move = best.first.line.substr(0, best.first.line.find(' '));
    if (!move.empty()) wrong = chess::parse_uci(move, entry.position, entry.move);
    if (const char* fault = wrong.empty() ? chess::find_move_problem(entry) : nullptr) return fault;
    return wrong.empty() ? read_score(best.first, entry) : wrong;
}

}  // namespace sparsepool::lichess_evals
