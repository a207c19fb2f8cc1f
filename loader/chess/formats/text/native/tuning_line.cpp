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
constexpr const char* kDifferentResults = "two operations have different results";

[[nodiscard]] bool is_number(std::string_view word) { return word.find_first_not_of(kDigits) == kNone; }

[[nodiscard]] bool is_square_or_dash(std::string_view word) {
    return word == "-" || (word.size() == 2 && word[0] >= 'a' && word[0] <= 'h' && is_number(word.substr(1)));
}

[[nodiscard]] bool is_castling(std::string_view word) {
    return word == "-" || word.find_first_not_of("KQkqABCDEFGHabcdefgh") == kNone;
}

// Whether a word can be this field of a FEN. Of the first two fields any word can.
[[nodiscard]] bool can_be_fen_field(std::string_view word, unsigned field) {
    switch (field) {
        case 0:
        case 1: return true;
        case 2: return is_castling(word);
        case 3: return is_square_or_dash(word);
        default: return is_number(word);
    }
}

struct FenExtent {
    std::size_t end = 0;
    unsigned fields = 0;
};

// Finds the FEN that the line begins with: two fields, and as many of the others as follow.
[[nodiscard]] FenExtent find_fen(std::string_view line) {
    FenExtent fen;
    for (unsigned field = 0; field < 6; ++field) {
        const std::size_t begin = std::min(line.find_first_not_of(" \t", fen.end), line.size());
        const std::size_t end = std::min(line.find_first_of(" \t;|[\"", begin), line.size());
        const std::string_view word = line.substr(begin, end - begin);
        if (word.empty() || !can_be_fen_field(word, field)) break;
        fen = {end, field + 1};
    }
    return fen;
}

// Whether the text is enclosed in such marks.
[[nodiscard]] bool is_enclosed(std::string_view text, char open, char close) {
    return text.size() > 1 && text.front() == open && text.back() == close;
}

// Returns a text without its first and last character, trimmed.
[[nodiscard]] std::string_view strip_marks(std::string_view text) { return trim(text.substr(1, text.size() - 2)); }

// Parses a word that names a result and can't be anything else.
[[nodiscard]] std::optional<int> read_result_word(std::string_view word) {
    std::string lower;
    for (const char letter : word)
        lower += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + ('a' - 'A')) : letter;
    if (lower == "white" || lower == "1-0") return 1;
    if (lower == "black" || lower == "0-1") return -1;
    if (lower == "draw" || lower == "1/2-1/2" || lower == "1/2") return 0;
    return std::nullopt;
}

[[nodiscard]] std::optional<int> read_any_result(std::string_view word) {
    const std::optional<int> named = read_result_word(word);
    return named ? named : chess::read_game_result(word);
}

// What a line says beside the FEN.
struct Labels {
    std::optional<int> white_result;
    std::optional<int> score;      // centipawns, the mover's
    std::string_view clock;        // half-moves: digits, or empty
    std::string_view move_number;  // digits, or empty
};

// An operation of EPD: a code, and an operand without its quotes.
struct Operation {
    std::string_view text;  // all of it
    std::string_view code;
    std::string_view operand;
};

[[nodiscard]] Operation split_operation(std::string_view text) {
    const std::size_t code_end = std::min(text.find_first_of(" \t\""), text.size());
    Operation operation{text, text.substr(0, code_end), trim(text.substr(code_end))};
    if (is_enclosed(operation.operand, '"', '"')) operation.operand = strip_marks(operation.operand);
    return operation;
}

// Returns where the operation at the beginning of a text ends: at the first semicolon outside of quotes.
[[nodiscard]] std::size_t find_operation_end(std::string_view text) {
    bool in_quotes = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == ';' && !in_quotes) return i;
        if (text[i] == '"') in_quotes = !in_quotes;
    }
    return text.size();
}

// Parses an operation without a code that is a result: [0.5], "1-0" or 1-0.
[[nodiscard]] std::optional<int> read_bare_result(std::string_view operation) {
    const bool has_marks = is_enclosed(operation, '[', ']') || is_enclosed(operation, '"', '"');
    return has_marks ? read_any_result(strip_marks(operation)) : read_result_word(operation);
}

// Reads an operation c0 to c9, any of which may have the result; c9 must. Returns what is wrong, or an empty text.
[[nodiscard]] std::string read_comment_operation(const Operation& operation, Labels& labels) {
    const std::optional<int> result = read_any_result(operation.operand);
    if (!result) {
        if (operation.code != "c9") return {};
        return expected_but_got("the result must be 1-0, 1/2-1/2 or 0-1, or 1.0, 0.5 or 0.0", operation.operand);
    }
    if (labels.white_result && *labels.white_result != *result) return kDifferentResults;
    labels.white_result = result;
    return {};
}

// Reads the operation ce, a score. Returns what is wrong, or an empty text.
[[nodiscard]] std::string read_score_operation(std::string_view operand, Labels& labels) {
    int score = 0;
    const char* const end = operand.data() + operand.size();
    const auto [stop, error] = std::from_chars(operand.data(), end, score);
    const bool is_whole_number = error == std::errc{} && stop == end;
    if (!is_whole_number || score < -32000 || score > 32000)
        return expected_but_got("ce must be a whole number of centipawns from -32000 to 32000", operand);
    labels.score = score;
    return {};
}

// Reads the operations of EPD. Returns what is wrong, or an empty text.
[[nodiscard]] std::string read_operations(std::string_view text, Labels& labels) {
    std::optional<int> bare_result;  // of an operation without a code; must agree with that of one with a code
    while (!text.empty()) {
        const std::size_t end = find_operation_end(text);
        const Operation operation = split_operation(trim(text.substr(0, end)));
        text = trim(text.substr(std::min(end + 1, text.size())));
        const std::string_view code = operation.code;
        std::string problem;
        if (code.size() == 2 && code[0] == 'c' && is_number(code.substr(1))) {
            problem = read_comment_operation(operation, labels);
        } else if (code == "ce") {
            problem = read_score_operation(operation.operand, labels);
        } else if (code == "hmvc" && is_number(operation.operand)) {
            labels.clock = operation.operand;
        } else if (code == "fmvn" && is_number(operation.operand)) {
            labels.move_number = operation.operand;
        } else if (const std::optional<int> result = read_bare_result(operation.text)) {
            if (bare_result && *bare_result != *result) problem = kDifferentResults;
            bare_result = result;
        }
        if (!problem.empty()) return problem;
    }
    if (bare_result && labels.white_result && *bare_result != *labels.white_result) return kDifferentResults;
    return labels.white_result ? std::string() : kForms;
}

// Reads a result in brackets or quotes, behind which nothing but a semicolon may stand. Returns what is wrong, or an
// empty text.
[[nodiscard]] std::string read_enclosed_result(std::string_view text, Labels& labels) {
    const char close = text.front() == '[' ? ']' : '"';
    const std::size_t end = text.find(close, 1);
    if (end == kNone) return kForms;
    const std::string_view word = trim(text.substr(1, end - 1));
    labels.white_result = read_any_result(word);
    if (!labels.white_result)
        return expected_but_got("the result must be 1-0, 1/2-1/2 or 0-1, or 1.0, 0.5 or 0.0 in brackets", word);
    std::string_view tail = trim(text.substr(end + 1));
    if (tail.starts_with(';')) tail = trim(tail.substr(1));
    return tail.empty() ? std::string() : expected_but_got("nothing stands behind the result", tail);
}

// Reads what stands behind a FEN. Returns what is wrong, or an empty text.
[[nodiscard]] std::string read_labels(std::string_view text, Labels& labels) {
    const bool has_separator = text.starts_with(';') || text.starts_with('|');
    if (has_separator) text = trim(text.substr(1));
    if (text.starts_with('[') || text.starts_with('"')) return read_enclosed_result(text, labels);
    std::string_view word = text;
    if (word.ends_with(';')) word = trim(word.substr(0, word.size() - 1));
    labels.white_result = read_result_word(word);
    if (labels.white_result) return {};
    const std::optional<int> number = chess::read_result(word);
    if (!number) return has_separator || text.empty() ? std::string(kForms) : read_operations(text, labels);
    if (!has_separator) {
        return expected_but_got(
            "a number without a mark may be White's result or the mover's: write White's in brackets, as [0.5]", word);
    }
    if (word.find('.') == kNone)
        return expected_but_got("a whole number may be a score or a result: write [0] or [1]", word);
    labels.white_result = number;
    return {};
}

}  // namespace

// A FEN of four fields (EPD) gets its clock and move number from operations.
std::string read_tuning_line(std::string_view line, unsigned required_parts, chess::Entry& entry) {
    const FenExtent extent = find_fen(line);
    Labels labels;
    std::string problem = read_labels(trim(line.substr(extent.end)), labels);
    if (!problem.empty()) return problem;
    std::string fen(line.substr(0, extent.end));
    if (extent.fields == 4 && !labels.clock.empty()) {
        fen += ' ';
        fen += labels.clock;
        if (!labels.move_number.empty()) {
            fen += ' ';
            fen += labels.move_number;
        }
    }
    problem = chess::read_fen(fen, required_parts, entry);
    if (!problem.empty()) return problem;
    entry.score = labels.score ? static_cast<std::int16_t>(*labels.score) : chess::kNoScore;
    entry.result = chess::result_for_side(*labels.white_result, entry.position.side);
    return {};
}

}  // namespace sparsepool::text
