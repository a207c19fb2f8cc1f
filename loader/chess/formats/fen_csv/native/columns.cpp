#include "chess/formats/fen_csv/native/columns.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "chess/native/formats/mates.h"
#include "chess/native/formats/text_fields.h"

namespace sparsepool::fen_csv {
namespace {

using chess::Entry;
using chess::expected_but_got;

constexpr std::size_t kNone = std::string_view::npos;

struct NamedColumn {
    std::string_view name;
    Column column;
};

constexpr std::array<NamedColumn, 7> kNamedColumns = {{
    {"fen", Column::kFen},
    {"score", Column::kScore},
    {"eval", Column::kScore},
    {"evaluation", Column::kScore},
    {"cp", Column::kScore},
    {"mate", Column::kMate},
    {"result", Column::kResult},
}};

// Returns where the first cell of a line ends: at the first delimiter outside of quotes. In a quoted cell two quotes
// mean one. A quote that is never closed is a letter like others.
[[nodiscard]] std::size_t find_cell_end(std::string_view line, char delimiter) {
    std::size_t search_from = 0;
    if (line.starts_with('"')) {
        std::size_t closing = line.find('"', 1);
        while (closing != kNone && line.substr(closing + 1).starts_with('"')) closing = line.find('"', closing + 2);
        if (closing != kNone) search_from = closing;
    }
    return std::min(line.find(delimiter, search_from), line.size());
}

// Removes blanks around a cell, and its quotes.
[[nodiscard]] std::string_view strip_cell(std::string_view cell) {
    const bool begins_with_quote = cell.starts_with('"');
    const std::string_view trimmed = chess::trim(cell);
    const bool is_quoted = begins_with_quote && trimmed.size() > 1 && trimmed.ends_with('"');
    return is_quoted ? chess::trim(trimmed.substr(1, trimmed.size() - 2)) : trimmed;
}

// Calls `visit(index, cell)` for each cell of a line, and returns their number. An empty line has one cell.
template <class Visit>
std::size_t for_each_cell(std::string_view line, char delimiter, Visit visit) {
    std::size_t num_cells = 0;
    std::size_t begin = 0;
    while (begin <= line.size()) {
        const std::string_view tail = line.substr(begin);
        const std::size_t size = find_cell_end(tail, delimiter);
        visit(num_cells++, strip_cell(tail.substr(0, size)));
        begin += size + 1;
    }
    return num_cells;
}

// Returns a tab if the header has one, else a comma if it has one, else a semicolon.
[[nodiscard]] char find_delimiter(std::string_view header) {
    for (const char delimiter : {'\t', ','}) {
        if (header.find(delimiter) != kNone) return delimiter;
    }
    return ';';
}

[[nodiscard]] std::string to_lower(std::string_view text) {
    std::string lower(text);
    for (char& letter : lower) {
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter + ('a' - 'A'));
    }
    return lower;
}

// Returns the column of this name, in any case; null if it is not one that is read.
[[nodiscard]] const Column* find_column(std::string_view name) {
    const std::string lower = to_lower(name);
    const auto* const match = std::ranges::find(kNamedColumns, lower, &NamedColumn::name);
    return match == kNamedColumns.end() ? nullptr : &match->column;
}

[[nodiscard]] bool is_fen(std::string_view cell) {
    chess::Position position;
    unsigned move_number = 0;
    std::uint8_t missing_parts = 0;
    return chess::parse_fen(cell, 2, position, move_number, missing_parts).empty();
}

// Removes the decimals of a whole number such as 31.0: tables that also hold empty cells often write whole numbers so.
[[nodiscard]] std::string_view without_zero_decimals(std::string_view number) {
    const std::size_t point = number.find('.');
    if (point == kNone || point + 1 == number.size()) return number;
    const bool has_only_zeros = number.find_first_not_of('0', point + 1) == kNone;
    return has_only_zeros ? number.substr(0, point) : number;
}

// Whether a cell has a word by which programs mark a missing value.
[[nodiscard]] bool is_missing_mark(std::string_view cell) {
    constexpr std::string_view kMarks[] = {"null", "nan", "none", "na", "n/a", "<na>", "nil", "\\n"};
    if (cell.empty() || cell.size() > 4) return false;
    const bool may_be_number = cell.front() >= '#' && cell.front() <= '9';  // most cells; also signs and #
    if (may_be_number) return false;
    return std::ranges::find(kMarks, to_lower(cell)) != std::end(kMarks);
}

// Parses moves to mate: more than 0 if White mates, 0 if the side to move is mated. Returns what is wrong, or an empty
// text.
[[nodiscard]] std::string read_mate(std::string_view cell, Entry& entry) {
    std::string_view digits = cell;
    const bool is_negative = digits.starts_with('-');
    if (is_negative || digits.starts_with('+')) digits.remove_prefix(1);
    unsigned moves = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, moves);
    if (error != std::errc{} || stop != end || moves > 32767) {
        return expected_but_got("mate must be in a whole number of moves, more than 0 if White mates", cell);
    }
    const unsigned side = entry.position.side;
    unsigned winner = is_negative ? chess::kBlack : chess::kWhite;
    if (moves == 0) winner = side ^ 1U;
    const std::int16_t white_score = chess::white_mate_score(winner, static_cast<int>(moves), side);
    return chess::convert_score_view(white_score, side, entry.score) ? std::string() : chess::kBadScore;
}

// Parses the cells of score and mate, of which at most one may have a value; without any there is no score. A score
// that begins with # is a mate. Returns what is wrong, or an empty text.
[[nodiscard]] std::string read_score_or_mate(std::string_view score, std::string_view mate, Entry& entry) {
    entry.score = chess::kNoScore;
    if (!score.empty() && !mate.empty()) return "a position has a score or a mate, not both";
    if (!mate.empty()) return read_mate(without_zero_decimals(mate), entry);
    if (score.empty()) return {};
    if (score.starts_with('#')) return read_mate(score.substr(1), entry);
    return chess::read_score(without_zero_decimals(score), entry);
}

}  // namespace

// Finds the columns by their names. Sets fault_ if a column that is needed is missing, or if two mean the same.
Columns::Columns(std::string_view header) : delimiter_(find_delimiter(header)) {
    bool has_fen_cell = false;
    std::array<std::string, kNumColumns> names;
    count_ = for_each_cell(header, delimiter_, [&](std::size_t index, std::string_view name) {
        has_fen_cell |= is_fen(name);
        const Column* column = find_column(name);
        if (column == nullptr) return;
        const auto kind = static_cast<std::size_t>(*column);
        if (indices_.at(kind) && fault_.empty()) {
            fault_ = "the columns " + names.at(kind) + " and " + shown(name) + " say the same: leave one out";
        }
        indices_.at(kind) = index;
        names.at(kind) = shown(name);
    });
    if (!fault_.empty()) return;
    if (!has(Column::kFen)) {
        fault_ = has_fen_cell ? "this is a position, and no line names the columns: put a first line before it"
                              : "no column is named fen";
        fault_ += ", as fen,score,result";
    } else if (!has(Column::kScore) && !has(Column::kMate) && !has(Column::kResult)) {
        fault_ = expected_but_got(
            "beside fen there must be a column score, eval, evaluation, cp, mate or result, apart by "
            "commas, tabs or semicolons",
            header);
    }
}

std::string Columns::read(std::string_view line, unsigned required_parts, Entry& entry) const {
    std::array<std::string_view, kNumColumns> cells;
    const std::size_t count = for_each_cell(line, delimiter_, [&](std::size_t index, std::string_view cell) {
        for (std::size_t kind = 0; kind < kNumColumns; ++kind) {
            if (indices_[kind] == index) cells[kind] = cell;
        }
    });
    if (count != count_) {
        return "the header names " + std::to_string(count_) + " columns, and the line has " + std::to_string(count);
    }
    const auto& [fen, score, mate, result] = cells;
    for (const auto& [name, cell] : {std::pair("score", score), std::pair("mate", mate), std::pair("result", result)}) {
        if (!is_missing_mark(cell)) continue;
        return expected_but_got(std::string("the ") + name + " must be a number, or an empty cell where there is none",
                                cell);
    }
    std::string problem = chess::read_fen(fen, required_parts, entry);
    if (problem.empty()) problem = read_score_or_mate(score, mate, entry);
    if (!problem.empty()) return problem;
    std::optional<int> white_result = chess::kNoResult;
    if (!result.empty()) white_result = chess::read_game_result(result);
    if (!white_result)
        return expected_but_got("the result must be 1.0, 0.5 or 0.0, White's, or 1-0, 1/2-1/2, 0-1, *", result);
    entry.result = chess::result_for_side(*white_result, entry.position.side);
    return {};
}

bool looks_like_columns(std::string_view head) {
    std::size_t num_lines = 0;  // without empty ones
    char delimiter = ',';
    std::size_t begin = 0;
    while (num_lines < 2) {
        const std::size_t end = head.find('\n', begin);
        const std::string_view line = chess::strip_line(head.substr(begin, end - begin));
        const bool is_blank = chess::trim(line).empty();
        if (!is_blank) ++num_lines;
        const bool is_header = num_lines == 1 && !is_blank;
        if (is_header) delimiter = find_delimiter(line);
        bool has_fen = false;
        const std::size_t num_cells = for_each_cell(line, delimiter, [&](std::size_t, std::string_view cell) {
            has_fen |= (is_header && to_lower(cell) == "fen") || is_fen(cell);
        });
        if (has_fen && num_cells > 1) return true;
        if (end == kNone) return false;
        begin = end + 1;
    }
    return false;
}

}  // namespace sparsepool::fen_csv
