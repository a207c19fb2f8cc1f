#include "chess/formats/lichess_evals/native/position.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
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
    Variation first;  // the principal one
};

[[nodiscard]] std::optional<std::int64_t> read_integer_or_null(Json& json) {
    if (json.read_null()) return std::nullopt;
    return json.read_integer();
}

[[nodiscard]] Variation read_variation(Json& json) {
    Variation variation;
    json.read_object([&](std::string_view name) {
        if (name == "cp") {
            variation.centipawns = read_integer_or_null(json);
        } else if (name == "mate") {
            variation.mate = read_integer_or_null(json);
        } else if (name == "line") {
            variation.line = json.read_string();
        } else {
            json.skip_value();
        }
    });
    return variation;
}

[[nodiscard]] Evaluation read_evaluation(Json& json) {
    Evaluation evaluation;
    json.read_object([&](std::string_view name) {
        if (name == "depth") {
            evaluation.depth = json.read_integer();
        } else if (name == "knodes") {
            evaluation.knodes = json.read_integer();
        } else if (name == "pvs") {
            json.read_array([&] {
                const Variation variation = read_variation(json);
                if (!evaluation.has_variation) evaluation.first = variation;
                evaluation.has_variation = true;
            });
        } else {
            json.skip_value();
        }
    });
    return evaluation;
}

// Whether an evaluation has more depth, or of the same depth more nodes.
[[nodiscard]] bool is_deeper(const Evaluation& a, const Evaluation& b) {
    return a.depth != b.depth ? a.depth > b.depth : a.knodes > b.knodes;
}

// Reads an array of evaluations. `deepest` becomes the deepest of these and of itself that has a variation.
void read_evaluations(Json& json, Evaluation& deepest) {
    json.read_array([&] {
        const Evaluation evaluation = read_evaluation(json);
        if (!evaluation.has_variation) return;
        if (!deepest.has_variation || is_deeper(evaluation, deepest)) deepest = evaluation;
    });
}

// Converts a variation's score to that of the entry, whose position has been read. Returns what is wrong, or an empty
// text.
[[nodiscard]] std::string set_score(const Variation& variation, chess::Entry& entry) {
    if (variation.centipawns.has_value() == variation.mate.has_value()) {
        return "the first of the pvs must have a cp or a mate, and not both";
    }
    const unsigned side = entry.position.side;
    std::int16_t white_score = 0;
    if (variation.centipawns) {
        constexpr std::int64_t kMax = chess::kMaxPawnScore;
        white_score = static_cast<std::int16_t>(std::clamp(*variation.centipawns, -kMax, kMax));
    } else {
        constexpr std::int64_t kMax = chess::kMaxMatePlies;
        const auto moves = static_cast<int>(std::clamp(*variation.mate, -kMax, kMax));
        unsigned winner = moves < 0 ? chess::kBlack : chess::kWhite;
        if (moves == 0) winner = side ^ 1U;  // the side to move is mated
        white_score = chess::white_mate_score(winner, std::abs(moves), side);
    }
    return chess::convert_score_view(white_score, side, entry.score) ? std::string() : chess::kBadScore;
}

// Replaces the escapes \/ that JSON allows by slashes.
void unescape_slashes(std::string& text) {
    std::size_t escape = text.find("\\/");
    while (escape != std::string::npos) {
        text.erase(escape, 1);
        escape = text.find("\\/", escape);
    }
}

}  // namespace

std::string read_position(std::string_view line, unsigned required_parts, chess::Entry& entry) {
    Json json(line);
    std::optional<std::string> fen;
    std::optional<Evaluation> deepest;
    json.read_object([&](std::string_view name) {
        if (name == "fen") {
            fen = json.read_string();
        } else if (name == "evals") {
            if (!deepest) deepest.emplace();
            read_evaluations(json, *deepest);
        } else {
            json.skip_value();
        }
    });
    json.expect_end();
    if (!json.good()) {
        return "byte " + std::to_string(json.offset() + 1) + ": this is no object of JSON as Lichess has it";
    }
    if (!fen) return "the object has no fen";
    if (!deepest) return "the object has no evals";
    unescape_slashes(*fen);
    std::string problem = chess::read_fen(*fen, required_parts, entry);
    if (!problem.empty()) return problem;
    entry.score = chess::kNoScore;
    entry.result = chess::kNoResult;
    if (!deepest->has_variation) return {};
    const Variation& variation = deepest->first;
    const std::string_view move = variation.line.substr(0, variation.line.find(' '));
    if (!move.empty()) problem = chess::parse_uci(move, entry.position, entry.move);
    if (!problem.empty()) return problem;
    if (const char* move_problem = chess::find_move_problem(entry)) return move_problem;
    return set_score(variation, entry);
}

}  // namespace sparsepool::lichess_evals
