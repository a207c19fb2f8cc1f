#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "chess/native/board/fen.h"
#include "chess/native/formats/record_walk.h"
#include "common/utf8.h"

// Fields of lines of text: a FEN, White's score, White's result.
namespace sparsepool::chess {

inline constexpr std::size_t kMaxQuoted = 40;  // characters of what is wrong

inline namespace SPARSEPOOL_ISA {

[[nodiscard]] inline bool is_blank(char letter) {
    return letter == ' ' || letter == '\t' || letter == '\r' || letter == '\v' || letter == '\f';
}

[[nodiscard]] inline std::string_view trim(std::string_view text) {
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    return text;
}

// A line without its end, and without a byte order mark, which may stand inside of a file that was put together of
// others.
[[nodiscard]] inline std::string_view strip_line(std::string_view line) {
    if (line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
}

[[nodiscard, gnu::noinline, gnu::cold]] inline std::string expected_but_got(std::string_view words,
                                                                            std::string_view text) {
    std::size_t end = std::min(text.size(), kMaxQuoted);
    while (end < text.size() && (static_cast<std::uint8_t>(text[end]) & 0xC0) == 0x80) --end;  // no half letter
    return std::string(words) + ", not '" + shown(text.substr(0, end)) + "'";
}

// -1, 0 or 1, or kNoResult; nothing for what is none of these.
[[nodiscard]] inline std::optional<int> read_result(std::string_view word) {
    if (word.size() > 2 && word.front() == '[' && word.back() == ']') word = word.substr(1, word.size() - 2);
    std::uint32_t letters = 0;
    if (word.size() == 3) {
        std::memcpy(&letters, word.data(), 3);
    } else if (word.size() == 1) {
        letters = static_cast<std::uint8_t>(word.front());
    }
    const auto is = [](const char* text) {
        std::uint32_t known = 0;
        for (unsigned i = 0; text[i] != 0; ++i) known |= static_cast<std::uint32_t>(text[i]) << (8 * i);
        return known;
    };
    if (letters == is("1.0") || letters == is("1")) return 1;
    if (letters == is("0.0") || letters == is("0")) return -1;
    if (letters == is("*")) return kNoResult;
    if (letters == is("0.5") || letters == is("1/2")) return 0;
    return std::nullopt;
}

// Likewise of words that games end with, too.
[[nodiscard]] inline std::optional<int> read_game_result(std::string_view word) {
    return word == "1-0" ? 1 : word == "0-1" ? -1 : word == "1/2-1/2" ? 0 : read_result(word);
}

[[nodiscard]] inline std::int8_t result_for_side(int white, unsigned side) {
    return static_cast<std::int8_t>(side == kWhite ? white : -white);
}

// What is wrong; nothing if the entry has the position then.
[[nodiscard]] inline std::string read_fen(std::string_view fen, unsigned required_parts, Entry& entry) {
    unsigned number = 0;
    std::string wrong = parse_fen(fen, 2, entry.position, number, entry.missing_parts);
    if (!wrong.empty()) return wrong;
    if (const char* fault = describe_missing_part(entry.missing_parts & required_parts)) return fault;
    if (const char* fault = find_move_number_problem(number, 0)) return fault;
    entry.ply = ply_of(number, entry.position.side);
    entry.move = {};
    return {};
}

// Of a position that has been read: White's score, a whole number.
[[nodiscard]] inline std::string read_score(std::string_view score, Entry& entry) {
    std::int16_t white_score = 0;
    const char* const begin = score.data() + (score.starts_with('+') ? 1 : 0);
    const auto [end, error] = std::from_chars(begin, score.data() + score.size(), white_score);
    if (error != std::errc{} || end != score.data() + score.size()) {
        return expected_but_got("the score must be a whole number of centipawns from -32768 to 32767", score);
    }
    return convert_score_view(white_score, entry.position.side, entry.score) ? std::string() : kBadScore;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
