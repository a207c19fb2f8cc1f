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

inline constexpr std::size_t kMaxQuoted = 40;  // bytes of a wrong text in a message

inline namespace SPARSEPOOL_ISA {

[[nodiscard]] inline bool is_blank(char letter) {
    return letter == ' ' || letter == '\t' || letter == '\r' || letter == '\v' || letter == '\f';
}

// Removes blanks at both ends.
[[nodiscard]] inline std::string_view trim(std::string_view text) {
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    return text;
}

// Removes the carriage return at the end of a line, and the byte order mark at its beginning: in a file that was
// concatenated from others there may be one before any line.
[[nodiscard]] inline std::string_view strip_line(std::string_view line) {
    if (line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
}

// Returns "REQUIREMENT, not 'TEXT'", with at most kMaxQuoted bytes of the text and no part of a UTF-8 character.
[[nodiscard, gnu::noinline, gnu::cold]] inline std::string expected_but_got(std::string_view requirement,
                                                                            std::string_view text) {
    const auto is_continuation_byte = [](char byte) { return (static_cast<std::uint8_t>(byte) & 0xC0) == 0x80; };
    std::size_t end = std::min(text.size(), kMaxQuoted);
    while (end < text.size() && is_continuation_byte(text[end])) --end;
    return std::string(requirement) + ", not '" + shown(text.substr(0, end)) + "'";
}

// Packs the characters of a text of at most 4 into a number, the first lowest, so that texts are compared at once.
[[nodiscard]] inline std::uint32_t pack_characters(const char* text, std::size_t size) {
    std::uint32_t packed = 0;
    for (std::size_t i = 0; i < size; ++i) packed |= std::uint32_t{static_cast<std::uint8_t>(text[i])} << (8 * i);
    return packed;
}

// Parses a result of White, which may be in square brackets: -1, 0, 1, or kNoResult for a star. Returns nothing for any
// other text.
[[nodiscard]] inline std::optional<int> read_result(std::string_view text) {
    if (text.size() > 2 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
    if (text.size() != 1 && text.size() != 3) return std::nullopt;
    std::uint32_t packed = 0;
    if (text.size() == 3) {
        std::memcpy(&packed, text.data(), 3);  // little endian, as pack_characters
    } else {
        packed = static_cast<std::uint8_t>(text.front());
    }
    if (packed == pack_characters("1.0", 3) || packed == pack_characters("1", 1)) return 1;
    if (packed == pack_characters("0.0", 3) || packed == pack_characters("0", 1)) return -1;
    if (packed == pack_characters("*", 1)) return kNoResult;
    if (packed == pack_characters("0.5", 3) || packed == pack_characters("1/2", 3)) return 0;
    return std::nullopt;
}

// Parses a result of White in the words that games end with, or as read_result.
[[nodiscard]] inline std::optional<int> read_game_result(std::string_view text) {
    if (text == "1-0") return 1;
    if (text == "0-1") return -1;
    if (text == "1/2-1/2") return 0;
    return read_result(text);
}

// Converts White's result to that of `side`.
[[nodiscard]] inline std::int8_t result_for_side(int white_result, unsigned side) {
    return static_cast<std::int8_t>(side == kWhite ? white_result : -white_result);
}

// Parses a FEN into the entry's position and ply. Returns what is wrong, also a part that is missing and required; or
// an empty text.
[[nodiscard]] inline std::string read_fen(std::string_view fen, unsigned required_parts, Entry& entry) {
    unsigned move_number = 0;
    std::string problem = parse_fen(fen, 2, entry.position, move_number, entry.missing_parts);
    if (!problem.empty()) return problem;
    if (const char* missing = describe_missing_part(entry.missing_parts & required_parts)) return missing;
    if (const char* bad_number = find_move_number_problem(move_number, 0)) return bad_number;
    entry.ply = ply_of(move_number, entry.position.side);
    entry.move = {};
    return {};
}

// Parses White's score, a whole number, into the entry, whose position must have been read. Returns what is wrong, or
// an empty text.
[[nodiscard]] inline std::string read_score(std::string_view text, Entry& entry) {
    std::int16_t white_score = 0;
    const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(begin, end, white_score);
    if (error != std::errc{} || stop != end) {
        return expected_but_got("the score must be a whole number of centipawns from -32768 to 32767", text);
    }
    return convert_score_view(white_score, entry.position.side, entry.score) ? std::string() : kBadScore;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
