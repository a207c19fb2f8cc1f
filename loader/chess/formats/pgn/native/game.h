#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chess/native/board/legality.h"
#include "chess/native/board/position.h"

// The text of a game, cut out of a file and read.
namespace sparsepool::pgn {

// Where the game that begins at `begin` ends, since another one begins; npos if that is not among the bytes. A game
// begins with a line that begins with a tag: the first behind moves, or one of Event behind other tags. That can be
// seen without knowing what is before, and no comment without an end goes on into the next game. `last`: no bytes
// follow.
[[nodiscard]] std::size_t end_of_game(std::string_view bytes, std::size_t begin, bool last);

// Whether the first line that says something is a tag.
[[nodiscard]] bool begins_with_tag(std::string_view bytes);

struct Game {
    std::vector<chess::Entry> entries;
    std::string fault;         // then there are no entries
    std::size_t fault_at = 0;  // bytes of the text before it
    chess::Illegal illegal{};  // what the fault says of the first position, if that is it
    bool begun = false;        // whether there is anything but blanks
};

// All of a game or nothing: its result, which all entries have, may be known at its end alone. `needs_ply`: a FEN
// without a move number is a fault.
void read_game(std::string_view text, bool needs_ply, Game& game);

// White's score that a comment of Lichess gives, [%eval 0.17], of the position behind the move; or why there is none.
struct Evaluation {
    std::optional<std::int16_t> score;
    bool wrong = false;
};
[[nodiscard]] Evaluation evaluation_in(std::string_view comment, unsigned side);

// The mover's score that a match program's comment begins with: +0.31/12, -M4.
[[nodiscard]] std::optional<std::int16_t> engine_score_in(std::string_view comment);

// A score as a comment that the last one reads. Scores of mates become -M4.
char* write_engine_score(std::int16_t score, char* out);

inline constexpr std::size_t kMaxEngineScore = 10;
inline constexpr int kMostScore = 32000;  // in size: mate

}  // namespace sparsepool::pgn
