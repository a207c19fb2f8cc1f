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

// Where the game that begins at `begin` ends, since another one begins; npos if that is not among the bytes. A game
// begins with a line that begins with a tag: the first behind moves, or one of Event behind other tags. That can be
// seen without knowing what is before, and no comment without an end goes on into the next game. Behind a program that
// was killed it may begin within a line, with a whole tag of Event that a line with another tag follows. `last`: no
// bytes follow.
[[nodiscard]] std::size_t find_game_end(std::string_view bytes, std::size_t begin, bool last);

// Whether the first line that says something is a tag.
[[nodiscard]] bool begins_with_tag(std::string_view bytes);

struct Game {
    std::vector<chess::Entry> entries;
    std::string fault;         // then there are no entries, but with has_rest
    bool has_rest = false;     // a whole game, and behind its end, from fault_at on, lines that are none
    std::size_t fault_at = 0;  // bytes of the text before it
    chess::Illegal illegal{};  // what the fault says of the first position, if that is it
    bool begun = false;        // whether there is anything but blanks
    NoScoreCounts unscored{};  // entries without a score
};

// Whether the tag Variant names chess; `chess960`: the one of Fischer.
[[nodiscard]] bool is_chess(std::string_view variant, bool& chess960);

// About how many moves the text of a game has that can't be read: words that look like one, comments and variations
// aside.
[[nodiscard]] std::size_t count_moves(std::string_view text);

// All of a game or nothing: its result, which all entries have, may be known at its end alone. `needed`: a FEN
// without a move number is a fault.
void read_game(std::string_view text, unsigned required_parts, const CommentSettings& settings, Game& game);

}  // namespace sparsepool::pgn
