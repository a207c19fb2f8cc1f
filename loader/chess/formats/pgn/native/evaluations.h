#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Scores in comments: pawns as centipawns, n plies before mate 32000 - n.
namespace sparsepool::pgn {

// Settings of the user: whose score a comment has, and the unit of its whole numbers. With kCentipawns mates count
// moves, as in UCI; otherwise plies.
enum class View : std::uint8_t { kNotSet, kMover, kWhite };
enum class Unit : std::uint8_t { kNotSet, kPawns, kCentipawns };
struct CommentSettings {
    View view = View::kNotSet;
    Unit unit = Unit::kNotSet;
};

// Why the comments behind a move give no score of its position. Of several reasons the last of these is reported.
enum class NoScore : std::uint8_t {
    kNoComment,
    kCommands,
    kBook,
    kRemark,
    kNoSignOrDepth,
    kWholeNumber,
    kDecimalComma,
    kMate,
};
inline constexpr std::size_t kNumNoScore = 8;
using NoScoreCounts = std::array<std::uint64_t, kNumNoScore>;

[[nodiscard]] const char* describe(NoScore reason);

// White's score of the position after the move, by a comment of Lichess.
struct Evaluation {
    std::optional<std::int16_t> score;
    bool is_wrong = false;  // the comment has a score that can't be parsed
};

// Parses the command [%eval 0.17] in a comment. `side` is to move after the move.
[[nodiscard]] Evaluation parse_evaluation(std::string_view comment, unsigned side, Unit unit);

// The score that a comment behind a move gives.
struct CommentScore {
    enum class Kind : std::uint8_t {
        kNone,
        kMovers,           // the mover's score of the position before the move
        kWhitesAfterMove,  // White's score of the position after the move
        kDamage,           // an engine's record that can be read in two ways
    };
    // How the score is written, by which other comments of the game can make it doubtful. A number without a depth,
    // signed or unsigned, may be an annotator's, who writes a sign only for negative ones. A mate may count plies or
    // moves.
    enum class Form : std::uint8_t { kPlain, kSigned, kUnsigned, kPlies, kNotPlies };

    Kind kind = Kind::kNone;
    NoScore reason = NoScore::kRemark;
    Form form = Form::kPlain;
    std::int16_t score = 0;
    std::string fault;
};

// Parses a comment behind a move of `mover`, without its commands ([%...]).
[[nodiscard]] CommentScore parse_comment_score(std::string_view comment, unsigned mover,
                                               const CommentSettings& settings);

// Writes a score as a comment from which parse_comment_score reads the same score: +0.31, -M4 plies. Returns the end.
char* write_engine_score(std::int16_t score, char* out);

inline constexpr std::size_t kMaxEngineScore = 16;

}  // namespace sparsepool::pgn
