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
constexpr std::array<std::pair<std::string_view, Column>, 7> kNames = {{
    {"fen", Column::kFen},
    {"score", Column::kScore},
    {"eval", Column::kScore},
    {"evaluation", Column::kScore},
    {"cp", Column::kScore},
    {"mate", Column::kMate},
    {"result", Column::kResult},
}};

// Takes the next cell; `line` has no data when that was the last one. Quotes around it count for nothing.
[[nodiscard]] std::string_view take_cell(std::string_view& line, char delimiter) {
    std::size_t end = 0;
    const bool quoted = line.starts_with('"');
    if (quoted) {
        end = line.find('"', 1);
        while (end != kNone && line.substr(end + 1).starts_with('"')) end = line.find('"', end + 2);
    }
    end = std::min(line.find(delimiter, end == kNone ? 0 : end), line.size());
    std::string_view cell = chess::trim(line.substr(0, end));
    if (quoted && cell.size() > 1 && cell.ends_with('"')) cell = chess::trim(cell.substr(1, cell.size() - 2));
    line = end == line.size() ? std::string_view() : line.substr(end + 1);
    return cell;
}

// Calls `take(number, cell)` for each cell of a line; gives back how many there are.
template <class Take>
std::size_t for_each_cell(std::string_view line, char delimiter, Take take) {
    std::size_t number = 0;
    while (line.data() != nullptr) take(number++, take_cell(line, delimiter));
    return number;
}

[[nodiscard]] char delimiter_of(std::string_view header) {
    for (const char delimiter : {'\t', ','}) {
        if (header.find(delimiter) != kNone) return delimiter;
    }
    return ';';
}

[[nodiscard]] std::string lower(std::string_view text) {
    std::string made(text);
    for (char& letter : made) letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
    return made;
}

[[nodiscard]] const Column* column_named(std::string_view name) {
    const std::string wanted = lower(name);
    const auto* const found = std::ranges::find(kNames, wanted, &std::pair<std::string_view, Column>::first);
    return found == kNames.end() ? nullptr : &found->second;
}

[[nodiscard]] bool is_fen(std::string_view cell) {
    chess::Position position;
    unsigned number = 0;
    std::uint8_t missing_parts = 0;
    return chess::parse_fen(cell, 2, position, number, missing_parts).empty();
}

// A whole number as tables have them that also hold empty cells: 31.0.
[[nodiscard]] std::string_view without_zeros(std::string_view number) {
    const std::size_t point = number.find('.');
    const bool zeros = point != kNone && point + 1 < number.size() && number.find_first_not_of('0', point + 1) == kNone;
    return zeros ? number.substr(0, point) : number;
}

// Whether a cell has a word that programs write for nothing.
[[nodiscard]] bool means_nothing(std::string_view cell) {
    constexpr std::string_view kWords[] = {"null", "nan", "none", "na", "n/a", "<na>", "nil", "\\n"};
    if (cell.empty() || cell.size() > 4 || (cell.front() >= '#' && cell.front() <= '9')) return false;  // most cells
    return std::ranges::find(kWords, lower(cell)) != std::end(kWords);
}

// Moves to mate: more than 0 if White mates, 0 if the side to move is mated.
[[nodiscard]] std::string read_mate(std::string_view cell, Entry& entry) {
    std::string_view digits = cell;
    const bool negative = digits.starts_with('-');
    if (negative || digits.starts_with('+')) digits.remove_prefix(1);
    unsigned moves = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), moves);
    if (error != std::errc{} || end != digits.data() + digits.size() || moves > 32767) {
        return expected_but_got("mate must be in a whole number of moves, more than 0 if White mates", cell);
    }
    const unsigned side = entry.position.side;
    const unsigned winner = moves == 0 ? side ^ 1U : negative ? unsigned{chess::kBlack} : unsigned{chess::kWhite};
    const std::int16_t white = chess::white_mate_score(winner, static_cast<int>(moves), side);
    return chess::convert_score_view(white, side, entry.score) ? std::string() : chess::kBadScore;
}

}  // namespace

Columns::Columns(std::string_view header) : delimiter_(delimiter_of(header)) {
    bool has_fen_below = false;
    std::array<std::string, kNumColumns> names;
    count_ = for_each_cell(header, delimiter_, [&](std::size_t number, std::string_view name) {
        has_fen_below |= is_fen(name);
        const Column* column = column_named(name);
        if (column == nullptr) return;
        const auto kind = static_cast<std::size_t>(*column);
        if (places_.at(kind) && fault_.empty()) {
            fault_ = "the columns " + names.at(kind) + " and " + shown(name) + " say the same: leave one out";
        }
        places_.at(kind) = number;
        names.at(kind) = shown(name);
    });
    if (!fault_.empty()) return;
    if (!has(Column::kFen)) {
        fault_ = has_fen_below ? "this is a position, and no line names the columns: put a first line before it"
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
    const std::size_t count = for_each_cell(line, delimiter_, [&](std::size_t number, std::string_view cell) {
        for (std::size_t i = 0; i < kNumColumns; ++i) {
            if (places_[i] == number) cells[i] = cell;
        }
    });
    if (count != count_) {
        return "the header names " + std::to_string(count_) + " columns, and the line has " + std::to_string(count);
    }
    const auto& [fen, score, mate, result] = cells;
    for (const auto& [name, cell] : {std::pair("score", score), std::pair("mate", mate), std::pair("result", result)}) {
        if (!means_nothing(cell)) continue;
        return expected_but_got(
            (std::string("the ") + name + " must be a number, or an empty cell where there is none").c_str(), cell);
    }
    std::string wrong = chess::read_fen(fen, required_parts, entry);
    if (!wrong.empty()) return wrong;
    entry.score = chess::kNoScore;
    if (!score.empty() && !mate.empty()) return "a position has a score or a mate, not both";
    if (!mate.empty()) wrong = read_mate(without_zeros(mate), entry);
    if (score.starts_with('#')) {
        wrong = read_mate(score.substr(1), entry);
    } else if (!score.empty()) {
        wrong = chess::read_score(without_zeros(score), entry);
    }
    if (!wrong.empty()) return wrong;
    const std::optional<int> white = result.empty() ? chess::kNoResult : chess::read_game_result(result);
    if (!white) return expected_but_got("the result must be 1.0, 0.5 or 0.0, White's, or 1-0, 1/2-1/2, 0-1, *", result);
    entry.result = chess::result_for_side(*white, entry.position.side);
    return {};
}

bool looks_like_columns(std::string_view head) {
    std::size_t lines = 0;
    char delimiter = ',';
    while (lines < 2) {
        const std::size_t end = head.find('\n');
        const std::string_view line = chess::strip_line(head.substr(0, end));
        if (!chess::trim(line).empty() && ++lines == 1) delimiter = delimiter_of(line);
        bool found = false;
        const std::size_t count = for_each_cell(line, delimiter, [&](std::size_t, std::string_view cell) {
            found |= (lines == 1 && lower(cell) == "fen") || is_fen(cell);
        });
        if (found && count > 1) return true;
        if (end == kNone) return false;
        head.remove_prefix(end + 1);
    }
    return false;
}

}  // namespace sparsepool::fen_csv
