#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "chess/formats/pgn/native/evaluations.h"
#include "chess/native/board/legality.h"
#include "chess/native/board/position.h"

// The text of a game, cut out of a file and read.
namespace sparsepool::pgn {

inline constexpr std::string_view kStart = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

// Returns where the game that begins at `begin` ends, which is where the next game begins; npos if no game begins in
// the bytes. A game begins with a line that begins with a tag: the first such line behind moves, or a tag Event behind
// other tags. That can be seen without knowing what is before, and a comment without an end does not swallow the next
// game. A game that a killed program has left may be followed by a game that begins within a line (find_event).
// `is_last`: no bytes follow these.
[[nodiscard]] std::size_t find_game_end(std::string_view bytes, std::size_t begin, bool is_last);

// Whether the first line that is not empty is a tag.
[[nodiscard]] bool begins_with_tag(std::string_view bytes);

struct Game {
    std::vector<chess::Entry> entries;
    std::string fault;               // empty: none. With a fault there are entries only if has_trailing_text
    bool has_trailing_text = false;  // the game is complete, but from fault_offset on lines follow that are no game
    std::size_t fault_offset = 0;    // in the text
    chess::Illegal illegal{};        // what is illegal about the first position, if that is the fault
    bool has_content = false;        // there is anything but blanks
    NoScoreCounts unscored{};        // numbers of entries without a score, by reason
};

// Whether a tag Variant names chess. `chess960`: whether that is Chess960.
[[nodiscard]] bool is_chess(std::string_view variant, bool& chess960);

// Returns about how many moves the text of a game has that can't be read: words that look like moves, outside of
// comments and variations.
[[nodiscard]] std::size_t count_moves(std::string_view text);

// Reads all of a game or nothing: its result, which all entries have, may be known only at its end. `required_parts`: a
// mask of EntryPart that the FEN must have.
void read_game(std::string_view text, unsigned required_parts, const CommentSettings& settings, Game& game);

}  // namespace sparsepool::pgn
