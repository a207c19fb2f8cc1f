#include "chess/formats/text/native/tuning_line.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>

#include "chess/native/formats/text_fields.h"

namespace sparsepool::text {
namespace {

using chess::expected_but_got;
using chess::trim;

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::string_view kDigits = "0123456789";
constexpr const char* kForms =
    "a line is FEN | score | result, or a FEN with White's result: c9 \"1-0\", [0.5], ;0.5, 1-0, Black";

[[nodiscard]] bool is_number(std::string_view word) { return word.find_first_not_of(kDigits) == kNone; }

[[nodiscard]] bool is_square(std::string_view word) {
    return word == "-" || (word.size() == 2 && word[0] >= 'a' && word[0] <= 'h' && is_number(word.substr(1)));
}

[[nodiscard]] bool is_castling(std::string_view word) {
    return word == "-" || word.find_first_not_of("KQkqABCDEFGHabcdefgh") == kNone;
}

struct FenPart {
    std::size_t end = 0;
    unsigned fields = 0;
};

// The FEN that the line begins with: two fields, and those of the others that can be nothing else.
[[nodiscard]] FenPart find_fen(std::string_view line) {
    FenPart fen;
    for (unsigned field = 0; field < 6; ++field) {
        const std::size_t begin = std::min(line.find_first_not_of(" \t", fen.end), line.size());
        const std::size_t after = std::min(line.find_first_of(" \t;|[\"", begin), line.size());
        const std::string_view word = line.substr(begin, after - begin);
        if (word.empty()) break;
        const bool fits = field < 2 || (field == 2 && is_castling(word)) || (field == 3 && is_square(word)) ||
                          (field > 3 && is_number(word));
        if (!fits) break;
        fen = {after, field + 1};
    }
    return fen;
}

// Takes what stands between two marks, of which the text begins with the first; false if the second is missing.
[[nodiscard]] bool take_enclosed(std::string_view& text, char close, std::string_view& inside) {
    const std::size_t end = text.find(close, 1);
    if (end == kNone) return false;
    inside = trim(text.substr(1, end - 1));
    text = trim(text.substr(end + 1));
    return true;
}

// A word that names a result and can be nothing else.
[[nodiscard]] std::optional<int> read_result_word(std::string_view word) {
    std::string small;
    for (const char letter : word)
        small += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + ('a' - 'A')) : letter;
    if (small == "white" || small == "1-0") return 1;
    if (small == "black" || small == "0-1") return -1;
    if (small == "draw" || small == "1/2-1/2" || small == "1/2") return 0;
    return std::nullopt;
}

[[nodiscard]] std::optional<int> read_any_result(std::string_view word) {
    const std::optional<int> named = read_result_word(word);
    return named ? named : chess::read_game_result(word);
}

struct Labels {
    std::optional<int> white;  // result
    std::optional<int> score;  // the mover's, in centipawns
    std::string_view clock;    // half-moves, and number of the move: digits, or empty
    std::string_view number;
};

// The result that an operation is which has no code: [0.5], "1-0" or 1-0.
[[nodiscard]] std::optional<int> read_bare_result(std::string_view operation) {
    const bool is_enclosed = operation.size() > 1 && ((operation.front() == '[' && operation.back() == ']') ||
                                                      (operation.front() == '"' && operation.back() == '"'));
    return is_enclosed ? read_any_result(trim(operation.substr(1, operation.size() - 2))) : read_result_word(operation);
}

// The operations of EPD. What is wrong, or nothing.
[[nodiscard]] std::string read_operations(std::string_view text, Labels& labels) {
    std::optional<int> bare;  // must agree with that of an operation with a code, before or behind it
    while (!text.empty()) {
        std::size_t end = 0;
        for (bool quoted = false; end < text.size() && (quoted || text[end] != ';'); ++end) quoted ^= text[end] == '"';
        const std::string_view operation = trim(text.substr(0, end));
        text = trim(text.substr(std::min(end + 1, text.size())));
        const std::size_t space = std::min(operation.find_first_of(" \t\""), operation.size());
        const std::string_view code = operation.substr(0, space);
        std::string_view operand = trim(operation.substr(space));
        if (operand.size() > 1 && operand.front() == '"' && operand.back() == '"')
            operand = trim(operand.substr(1, operand.size() - 2));
        if (code.size() == 2 && code[0] == 'c' && is_number(code.substr(1))) {
            const std::optional<int> white = read_any_result(operand);
            if (!white && code == "c9")
                return expected_but_got("the result must be 1-0, 1/2-1/2 or 0-1, or 1.0, 0.5 or 0.0", operand);
            if (white && labels.white && *labels.white != *white) return "two operations have different results";
            if (white) labels.white = white;
        } else if (code == "ce") {
            int score = 0;
            const auto [stop, error] = std::from_chars(operand.data(), operand.data() + operand.size(), score);
            const bool is_whole = error == std::errc{} && stop == operand.data() + operand.size();
            if (!is_whole || score < -32000 || score > 32000)
                return expected_but_got("ce must be a whole number of centipawns from -32000 to 32000", operand);
            labels.score = score;
        } else if ((code == "hmvc" || code == "fmvn") && is_number(operand)) {
            (code == "hmvc" ? labels.clock : labels.number) = operand;
        } else if (const std::optional<int> white = read_bare_result(operation)) {
            if (bare && *bare != *white) return "two operations have different results";
            bare = white;
        }
    }
    if (bare && labels.white && *bare != *labels.white) return "two operations have different results";
    return labels.white ? std::string() : kForms;
}

// What stands behind a FEN. What is wrong, or nothing.
[[nodiscard]] std::string read_labels(std::string_view text, Labels& labels) {
    const bool has_mark = text.starts_with(';') || text.starts_with('|');
    if (has_mark) text = trim(text.substr(1));
    if (text.starts_with('[') || text.starts_with('"')) {
        const bool bracket = text.starts_with('[');
        std::string_view word;
        if (!take_enclosed(text, bracket ? ']' : '"', word)) return kForms;
        labels.white = read_any_result(word);
        if (!labels.white)
            return expected_but_got("the result must be 1-0, 1/2-1/2 or 0-1, or 1.0, 0.5 or 0.0 in brackets", word);
        if (text.starts_with(';')) text = trim(text.substr(1));
        return text.empty() ? std::string() : expected_but_got("nothing stands behind the result", text);
    }
    std::string_view word = text;
    if (word.ends_with(';')) word = trim(word.substr(0, word.size() - 1));
    labels.white = read_result_word(word);
    if (labels.white) return {};
    const std::optional<int> number = chess::read_result(word);
    if (!number) return has_mark || text.empty() ? std::string(kForms) : read_operations(text, labels);
    if (!has_mark) {
        return expected_but_got(
            "a number without a mark may be White's result or the mover's: write White's in brackets, as [0.5]", word);
    }
    if (word.find('.') == kNone)
        return expected_but_got("a whole number may be a score or a result: write [0] or [1]", word);
    labels.white = number;
    return {};
}

}  // namespace

std::string read_tuning_line(std::string_view line, unsigned required_parts, chess::Entry& entry) {
    const FenPart part = find_fen(line);
    Labels labels;
    std::string wrong = read_labels(trim(line.substr(part.end)), labels);
    if (!wrong.empty()) return wrong;
    std::string fen(line.substr(0, part.end));
    if (part.fields == 4 && !labels.clock.empty()) {
        fen += ' ';
        fen += labels.clock;
        if (!labels.number.empty()) (fen += ' ') += labels.number;
    }
    wrong = chess::read_fen(fen, required_parts, entry);
    if (!wrong.empty()) return wrong;
    entry.score = labels.score ? static_cast<std::int16_t>(*labels.score) : chess::kNoScore;
    entry.result = chess::result_for_side(*labels.white, entry.position.side);
    return {};
}

}  // namespace sparsepool::text
