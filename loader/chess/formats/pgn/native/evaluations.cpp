#include "chess/formats/pgn/native/evaluations.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "chess/native/board/position.h"
#include "chess/native/formats/mates.h"

namespace sparsepool::pgn {
namespace {

constexpr std::string_view kDigits = "0123456789";

void skip_blanks(std::string_view& text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\n' || text.front() == '\r'))
        text.remove_prefix(1);
}

// 1 or -1, of the sign that the text may begin with.
int take_sign(std::string_view& text) {
    const bool negative = text.starts_with('-');
    if (negative || text.starts_with('+')) text.remove_prefix(1);
    return negative ? -1 : 1;
}

std::string_view take_digits(std::string_view& text) {
    const std::string_view digits = text.substr(0, std::min(text.find_first_not_of(kDigits), text.size()));
    text.remove_prefix(digits.size());
    return digits;
}

// The number that digits write; `most` of one that is larger.
int number_of(std::string_view digits, int most) {
    int number = most;
    (void)std::from_chars(digits.data(), digits.data() + digits.size(), number);  // too many: stays
    return std::min(number, most);
}

// Hundredths, rounded; below all mates.
std::int16_t of_pawns(std::string_view number) {
    double pawns = 0;
    (void)std::from_chars(number.data(), number.data() + number.size(), pawns);
    return static_cast<std::int16_t>(std::min(std::nearbyint(pawns * 100), double{chess::kMostPawns}));
}

}  // namespace

std::optional<std::int16_t> engine_score_in(std::string_view comment) {
    skip_blanks(comment);
    const bool has_sign = comment.starts_with('+') || comment.starts_with('-');
    const int sign = take_sign(comment);
    const bool mate = comment.starts_with('M');
    if (mate) comment.remove_prefix(1);
    std::string_view number = comment;
    const std::size_t whole = take_digits(comment).size();
    if (whole == 0) return std::nullopt;
    const bool has_point = !mate && comment.starts_with('.');
    if (has_point) {
        comment.remove_prefix(1);
        if (take_digits(comment).empty()) return std::nullopt;
    }
    number = number.substr(0, number.size() - comment.size());
    if (!comment.empty() && std::string_view("/ ,\r\n").find(comment.front()) == std::string_view::npos) {
        return std::nullopt;
    }
    const bool has_depth = comment.starts_with('/');
    skip_blanks(comment);
    if (!has_sign && !has_depth && !mate && !(has_point && comment.empty())) return std::nullopt;  // a remark
    return static_cast<std::int16_t>(sign *
                                     (mate ? chess::kMostScore - number_of(number, chess::kMates) : of_pawns(number)));
}

Evaluation evaluation_in(std::string_view comment, unsigned side) {
    constexpr std::string_view kBegin = "[%eval";
    const std::size_t at = comment.find(kBegin);
    if (at == std::string_view::npos) return {};
    comment.remove_prefix(at + kBegin.size());
    comment = comment.substr(0, comment.find(']'));
    skip_blanks(comment);
    comment = comment.substr(0, comment.find(','));  // a depth behind it
    while (comment.ends_with(' ')) comment.remove_suffix(1);
    const bool mate = comment.starts_with('#');
    if (mate) comment.remove_prefix(1);
    const int sign = take_sign(comment);
    const std::string_view number = comment;
    const std::string_view whole = take_digits(comment);
    if (whole.empty()) return {{}, true};
    if (mate) {
        if (!comment.empty()) return {{}, true};
        const unsigned winner = sign > 0 ? chess::kWhite : chess::kBlack;
        return {chess::white_mate_score(winner, number_of(whole, chess::kMates), side), false};
    }
    // Without a point it may be of pawns or of centipawns; programs write both.
    if (comment.empty() && whole.find_first_not_of('0') == std::string_view::npos) return {0, false};
    if (!comment.starts_with('.')) return {{}, true};
    comment.remove_prefix(1);
    if (take_digits(comment).empty() || !comment.empty()) return {{}, true};
    return {static_cast<std::int16_t>(sign * of_pawns(number)), false};
}

char* write_engine_score(std::int16_t score, char* out) {
    const int size = std::abs(int{score});
    *out++ = score < 0 ? '-' : '+';
    if (size >= chess::kMostScore - chess::kMates) {
        *out++ = 'M';
        return std::to_chars(out, out + 4, chess::kMostScore - size).ptr;
    }
    out = std::to_chars(out, out + 4, size / 100).ptr;
    *out++ = '.';
    *out++ = static_cast<char>('0' + size / 10 % 10);
    *out++ = static_cast<char>('0' + size % 10);
    return out;
}

}  // namespace sparsepool::pgn
