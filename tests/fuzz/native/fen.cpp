// Target: the FEN parser and the parser of moves. Input: lines, each "FEN;move;score;ply;result" or less of it.
//
// What is read is written as the same text's position again; and what the format can hold comes back from it.

#include <string>
#include <string_view>

#include "chess/native/board/fen.h"
#include "entries.h"
#include "target.h"

namespace {

using namespace sparsepool;

std::string_view take_field(std::string_view& text, char separator) {
    const std::size_t end = text.find(separator);
    const std::string_view field = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    return field;
}

int parse_capped_number(std::string_view field) {
    int number = 0;
    for (const char letter : field.substr(0, 6)) number = number * 10 + (letter & 15);
    return field.starts_with('-') ? -number : number;
}

void check_position_text(const chess::Position& position) {
    char text[chess::kMaxFen];
    const char* end = chess::write_fen(position, 65535, text);
    FUZZ_REQUIRE(end <= text + sizeof text);
    chess::Position again;
    FUZZ_REQUIRE(chess::parse_fen({text, static_cast<std::size_t>(end - text)}, again).empty());
    chess::Entry one;
    chess::Entry other;
    one.position = position;
    other.position = again;
    FUZZ_REQUIRE(fuzz::same_entry(one, other));
    FUZZ_REQUIRE(position.rule50 == again.rule50);
}

void check_move_text(const chess::Position& position, chess::Move move) {
    char text[chess::kMaxUci];
    const char* end = chess::write_uci(move, false, text);
    FUZZ_REQUIRE(end <= text + sizeof text);
    chess::Move again;
    FUZZ_REQUIRE(chess::parse_uci({text, static_cast<std::size_t>(end - text)}, position, again).empty());
    FUZZ_REQUIRE(again.word == move.word);
    chess::Position next = position;
    if (chess::play(next, move) == chess::MoveFault::kNone) check_position_text(next);
}

}  // namespace

void sparsepool::fuzz::check_input(const std::uint8_t* data, std::size_t size) {
    // A copy of exactly the input's length, so that reading past its end is seen.
    const std::vector<char> copy(data, data + size);
    std::string_view text(copy.data(), copy.size());
    std::vector<fuzz::ReadEntry> entries;
    while (!text.empty()) {
        std::string_view line = take_field(text, '\n');
        chess::Entry entry;
        if (!chess::parse_fen(take_field(line, ';'), entry.position).empty()) continue;
        check_position_text(entry.position);
        if (!chess::parse_uci(take_field(line, ';'), entry.position, entry.move).empty()) continue;
        check_move_text(entry.position, entry.move);
        entry.score = static_cast<std::int16_t>(parse_capped_number(take_field(line, ';')));
        entry.ply = static_cast<std::uint16_t>(parse_capped_number(take_field(line, ';')));
        entry.result = static_cast<std::int8_t>(parse_capped_number(line) % 2);
        entries.push_back({entry, 0, true});
    }
    fuzz::check_round_trip(entries);
}
