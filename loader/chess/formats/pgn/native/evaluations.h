#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Scores in comments: pawns as centipawns, n plies before mate 32000 - n.
namespace sparsepool::pgn {

// Whose score a comment has, and what its whole numbers are, if the user knows. `centipawns`: mates count moves, too,
// as in UCI; else plies.
enum class View : std::uint8_t { kNotSet, kMover, kWhite };
enum class Unit : std::uint8_t { kNotSet, kPawns, kCentipawns };
struct CommentSettings {
    View view = View::kNotSet;
    Unit unit = Unit::kNotSet;
};

// Why the comments behind a move have no score of its position. Of several the last of these is told.
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

// White's score that a comment of Lichess gives, [%eval 0.17], of the position behind the move; or why there is none.
struct Evaluation {
    std::optional<std::int16_t> score;
    bool wrong = false;
};
[[nodiscard]] Evaluation evaluation_in(std::string_view comment, unsigned side, Unit unit);

// The score that a comment behind a move of `mover` gives the position before the move, commands ([%...]) aside.
struct CommentScore {
    enum class Kind : std::uint8_t {
        kNone,
        kMovers,
        kWhitesBehind,  // White's, of the position behind the move
        kDamage,        // an engine's record that can be read two ways
    };
    // What other comments of the game depend on. A number without a depth, signed or unsigned, may be an annotator's,
    // who writes a sign of negative ones only; a mate may count plies or moves.
    enum class Form : std::uint8_t { kPlain, kSigned, kUnsigned, kPlies, kNotPlies };

    Kind kind = Kind::kNone;
    NoScore reason = NoScore::kRemark;
    Form form = Form::kPlain;
    std::int16_t score = 0;
    std::string fault;
};
[[nodiscard]] CommentScore score_in(std::string_view comment, unsigned mover, const CommentSettings& settings);

// Writes a score as a comment that is read as that score: +0.31, -M4 plies.
char* write_engine_score(std::int16_t score, char* out);

inline constexpr std::size_t kMaxEngineScore = 16;

}  // namespace sparsepool::pgn
