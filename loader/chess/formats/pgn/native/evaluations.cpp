#include "chess/formats/pgn/native/evaluations.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "chess/native/board/position.h"
#include "chess/native/formats/mates.h"
#include "common/utf8.h"

namespace sparsepool::pgn {
namespace {

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::size_t kMaxQuoted = 40;       // letters of a comment that is wrong
constexpr std::size_t kMostDepthDigits = 3;  // more are a year or a number of nodes
constexpr char kPlies[] = "plies";           // behind mates that this project writes

bool begins_with_digit(std::string_view text) { return !text.empty() && text.front() >= '0' && text.front() <= '9'; }

void skip_any(std::string_view& text, std::string_view letters) {
    text.remove_prefix(std::min(text.find_first_not_of(letters), text.size()));
}

bool skip_one(std::string_view& text, std::string_view letters) {
    const bool is_there = !text.empty() && letters.find(text.front()) != kNone;
    if (is_there) text.remove_prefix(1);
    return is_there;
}

std::string_view take_digits(std::string_view& text) {
    const std::string_view digits = text.substr(0, std::min(text.find_first_not_of(kDigits), text.size()));
    text.remove_prefix(digits.size());
    return digits;
}

// The number that digits write; `most` of one that is larger.
int parse_capped_number(std::string_view digits, int most) {
    int number = most;
    (void)std::from_chars(digits.data(), digits.data() + digits.size(), number);  // too many: stays
    return std::min(number, most);
}

// Hundredths, rounded; below all mates.
std::int16_t of_pawns(std::string_view number) {
    double pawns = 0;
    (void)std::from_chars(number.data(), number.data() + number.size(), pawns);
    return static_cast<std::int16_t>(std::min(std::nearbyint(pawns * 100), double{chess::kMaxPawnScore}));
}

std::int16_t of_whole(std::string_view digits, Unit unit) {
    const int number = parse_capped_number(digits, chess::kMaxPawnScore);
    return static_cast<std::int16_t>(std::min(unit == Unit::kPawns ? 100 * number : number, chess::kMaxPawnScore));
}

bool is_zero(std::string_view digits) { return digits.find_first_not_of('0') == kNone; }

struct Number {
    enum class Form : std::uint8_t { kPoint, kWhole, kComma, kMate };
    Form form = Form::kWhole;
    bool has_sign = false;
    int sign = 1;
    bool is_hash = false;         // of a mate: #3, which counts moves
    std::string_view digits;      // and its point
    std::string_view hundredths;  // behind a comma
};

void take_sign(std::string_view& text, Number& number) {
    if (number.has_sign) return;
    number.sign = text.starts_with('-') ? -1 : 1;
    number.has_sign = skip_one(text, "+-");
}

// The number that the text begins with, as +0.31, -0,31, 17, M5, -M5 or #-5.
std::optional<Number> take_number(std::string_view& text) {
    Number number;
    take_sign(text, number);
    if (text.starts_with('M') || text.starts_with('#')) {
        number.form = Number::Form::kMate;
        number.is_hash = text.starts_with('#');
        text.remove_prefix(1);
        take_sign(text, number);
        number.digits = take_digits(text);
        return number.digits.empty() ? std::nullopt : std::optional(number);
    }
    const std::string_view begin = text;
    const std::string_view whole = take_digits(text);
    if (whole.empty()) return std::nullopt;
    if (text.size() > 1 && text.front() == '.' && begins_with_digit(text.substr(1))) {
        number.form = Number::Form::kPoint;
        text.remove_prefix(1);
        (void)take_digits(text);
    } else if (text.size() > 1 && text.front() == ',' && begins_with_digit(text.substr(1))) {
        number.form = Number::Form::kComma;
        text.remove_prefix(1);
        number.digits = whole;
        number.hundredths = take_digits(text);
        return number;
    }
    number.digits = begin.substr(0, begin.size() - text.size());
    return number;
}

// Hundredths of a number with a decimal comma.
std::int16_t of_comma(const Number& number) {
    std::string text(number.digits.substr(0, 9));
    text += '.';
    text += number.hundredths.substr(0, 9);
    return of_pawns(text);
}

// What stands behind a number: 0.31/12 0.5s, 0.31 12/18.
struct Behind {
    bool has_depth = false;
    bool has_time = false;
    bool has_words = false;  // anything but numbers, commas and what stands in brackets
    bool is_other = false;   // the number is a part of something else: 3rd, 12/12/2021, 50%
};

bool take_depth(std::string_view& text) {
    if (!text.starts_with('/')) return false;
    std::string_view behind = text.substr(1);
    const std::size_t digits = take_digits(behind).size();
    if (digits == 0 || digits > kMostDepthDigits) return false;
    text = behind;
    return true;
}

// The unit behind a number, as the s of 0.05s, 0,05s, 0:07, 1234 or 12/18; nothing if it is none of these.
std::optional<std::string_view> unit_of(std::string_view word) {
    const std::size_t end = word.find_last_of(kDigits) + 1;
    const std::string_view number = word.substr(0, end);
    if (!begins_with_digit(number) || number.find_first_not_of("0123456789.,:/") != kNone) return std::nullopt;
    return word.substr(end);
}

Behind read_behind(std::string_view text, Number::Form form) {
    Behind behind;
    const bool has_comma = text.starts_with(',') && begins_with_digit(text.substr(1));  // of 1.234,56
    behind.has_depth = take_depth(text);
    if (behind.has_depth && form == Number::Form::kPoint) (void)take_depth(text);  // the selective one
    behind.is_other = has_comma || (!text.empty() && (kBlanks.find(text.front()) == kNone && text.front() != ','));
    skip_any(text, " \t\r\n,");
    if (behind.is_other || text.empty()) return behind;
    if (text.front() == '(' || text.front() == '[') {  // (12), [%emt 5]; behind a depth also (Rh7)
        const std::string_view inside = text.substr(1);
        behind.has_words = !behind.has_depth && !begins_with_digit(inside) && !text.starts_with("[%");
        return behind;
    }
    std::string_view word = text.substr(0, text.find_first_of(kBlanks));
    while (word.ends_with(',')) word.remove_suffix(1);
    const std::optional<std::string_view> unit = unit_of(word);
    behind.has_words = !unit || (!unit->empty() && *unit != "s" && *unit != "ms");
    behind.has_time = !behind.has_words && !unit->empty();
    behind.has_depth = behind.has_depth || (!behind.has_words && word.find('/') != kNone);
    return behind;
}

CommentScore no_score(NoScore reason, CommentScore::Form form = CommentScore::Form::kPlain) {
    CommentScore none;
    none.reason = reason;
    none.form = form;
    return none;
}

CommentScore damage(std::string_view comment, const char* reason) {
    CommentScore wrong;
    wrong.kind = CommentScore::Kind::kDamage;
    wrong.fault = "the comment '" + shown(comment.substr(0, std::min(comment.size(), kMaxQuoted))) + "' " + reason;
    return wrong;
}

constexpr char kWhole[] =
    "has a whole number, which may be of pawns or of centipawns; say which by data.chess.pgn.unit (--pgn-unit)";
constexpr char kComma[] = "has a decimal comma; if that is what it is, set data.chess.pgn.unit (--pgn-unit) to pawns";

class CommentReading {
  public:
    CommentReading(std::string_view comment, unsigned mover, const CommentSettings& settings)
        : comment_(comment), mover_(mover), settings_(settings) {}

    CommentScore read() const {
        std::string_view text = comment_;
        skip_any(text, kBlanks);
        const bool is_empty = text.empty();
        while (text.starts_with("[%")) {
            text.remove_prefix(std::min(text.find(']'), text.size() - 1) + 1);
            skip_any(text, kBlanks);
        }
        if (text.empty()) return no_score(is_empty ? NoScore::kNoComment : NoScore::kCommands);
        if (is_book(text)) return no_score(NoScore::kBook);
        if (const std::size_t key = text.find("wv="); key != kNone && is_key(text, key))
            return whites(text.substr(key + 3));
        if (text.starts_with('(')) return behind_moves(text);
        return movers(text);
    }

  private:
    static bool is_book(std::string_view text) {
        (void)skip_one(text, "(");
        std::string word;
        for (const char letter : text.substr(0, 5)) {
            word += static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter + ('a' - 'A') : letter);
        }
        return word.starts_with("book") && (word.size() == 4 || word.back() < 'a' || word.back() > 'z');
    }

    static bool is_key(std::string_view text, std::size_t key) {
        return key == 0 || kBlanks.find(text[key - 1]) != kNone || text[key - 1] == ',';
    }

    // As TCEC writes it: White's score of the position before the move, whoever made it.
    CommentScore whites(std::string_view text) const {
        std::optional<Number> number = take_number(text);
        const bool ends = text.empty() || text.front() == ',' || kBlanks.find(text.front()) != kNone;
        if (!number || !ends) return no_score(NoScore::kRemark);
        if (number->form == Number::Form::kMate) number->has_sign = false;  // which only Black's mates have
        return score_of(*number, {.has_depth = true, .has_time = true}, View::kWhite);
    }

    // As Arena writes it: moves in parentheses, then a score with a depth.
    CommentScore behind_moves(std::string_view text) const {
        text.remove_prefix(std::min(text.find(')'), text.size() - 1) + 1);
        skip_any(text, kBlanks);
        CommentScore found = movers(text);
        const bool alone = found.form == CommentScore::Form::kSigned || found.form == CommentScore::Form::kUnsigned;
        return alone ? no_score(NoScore::kRemark) : found;
    }

    CommentScore movers(std::string_view text) const {
        const std::optional<Number> number = take_number(text);
        if (!number) return no_score(NoScore::kRemark);
        if (number->form == Number::Form::kMate && number->has_sign && is_own(text)) {
            return mate_in_plies(*number, settings_.view);
        }
        const Behind behind = read_behind(text, number->form);
        const bool is_record = number->has_sign && behind.has_depth && number->form != Number::Form::kWhole;
        if (behind.is_other || (behind.has_words && !is_record)) return no_score(NoScore::kRemark);
        if (settings_.view == View::kNotSet && may_be_points(*number, text)) return no_score(NoScore::kRemark);
        return score_of(*number, behind, settings_.view);
    }

    // Whether they may be points of a player, as 2.5/3: halves, and no more than there are games.
    static bool may_be_points(const Number& number, std::string_view behind) {
        const std::string_view points = number.digits;
        const bool has_halves = points.ends_with(".5") || (points.ends_with(".0") && points != "0.0");
        if (number.form != Number::Form::kPoint || number.has_sign || !has_halves || !skip_one(behind, "/"))
            return false;
        const int games = parse_capped_number(take_digits(behind), chess::kMaxPawnScore);
        skip_any(behind, kBlanks);
        return behind.empty() && of_pawns(points) <= 100 * games;
    }

    static bool is_own(std::string_view text) {
        skip_any(text, kBlanks);
        const bool has_word = text.starts_with(kPlies);
        if (has_word) text.remove_prefix(sizeof kPlies - 1);
        skip_any(text, kBlanks);
        return has_word && text.empty();
    }

    CommentScore score_of(const Number& number, const Behind& behind, View view) const {
        using Form = CommentScore::Form;
        const int evidence = (number.has_sign ? 1 : 0) + (behind.has_depth ? 1 : 0) + (behind.has_time ? 1 : 0);
        const bool is_known = settings_.unit != Unit::kNotSet;
        std::int16_t size = 0;
        switch (number.form) {
            case Number::Form::kMate: return mate(number, view);
            case Number::Form::kPoint: size = of_pawns(number.digits); break;
            case Number::Form::kComma:
                if (settings_.unit != Unit::kPawns) {
                    return evidence > 1 ? damage(comment_, kComma) : no_score(NoScore::kDecimalComma);
                }
                size = of_comma(number);
                break;
            case Number::Form::kWhole:
                if (!is_known && !is_zero(number.digits) && evidence > 1) return damage(comment_, kWhole);
                if (!is_known && evidence < 2) return no_score(NoScore::kWholeNumber);
                size = of_whole(number.digits, settings_.unit);
                break;
        }
        const auto score = static_cast<std::int16_t>(number.sign * size);
        if (behind.has_depth) return seen_by(view, score, Form::kPlain);
        if (number.has_sign) return seen_by(view, score, Form::kSigned);
        const Form form = size == 0 ? Form::kPlain : Form::kUnsigned;  // zero has no sign
        if (view == View::kMover) return seen_by(view, score, form);
        if (view == View::kNotSet) return no_score(NoScore::kNoSignOrDepth, form);
        CommentScore found;
        found.kind = CommentScore::Kind::kWhitesBehind;
        found.form = form;
        found.score = score;
        return found;
    }

    CommentScore seen_by(View view, std::int16_t score, CommentScore::Form form) const {
        CommentScore found;
        found.kind = CommentScore::Kind::kMovers;
        found.form = form;
        found.score = view == View::kWhite && mover_ == chess::kBlack ? static_cast<std::int16_t>(-score) : score;
        return found;
    }

    CommentScore mate(const Number& number, View view) const {
        const unsigned other = mover_ ^ 1U;
        const unsigned side = view == View::kWhite ? unsigned{chess::kWhite} : mover_;
        const unsigned winner = number.sign > 0 ? side : side ^ 1U;
        const int count = parse_capped_number(number.digits, chess::kMaxMatePlies);
        if (count == 0) return no_score(NoScore::kMate);  // no move follows a mate
        if (settings_.unit == Unit::kCentipawns) {
            const std::int16_t white = chess::white_mate_score(winner, count, mover_);
            const std::int16_t score = mover_ == chess::kWhite ? white : static_cast<std::int16_t>(-white);
            return seen_by(View::kMover, score, CommentScore::Form::kPlain);
        }
        // Of plies, who mates has an odd number, and who is mated an even one.
        const bool has_ending =
            parse_capped_number(number.digits.substr(number.digits.size() - 1), 9) % 2 == (winner == other ? 0 : 1);
        const bool is_plain = number.has_sign || settings_.unit == Unit::kPawns;
        if (number.is_hash || !is_plain || !has_ending) return no_score(NoScore::kMate, CommentScore::Form::kNotPlies);
        return mate_in_plies(number, view);
    }

    CommentScore mate_in_plies(const Number& number, View view) const {
        const int size = chess::kMateScore - parse_capped_number(number.digits, chess::kMaxMatePlies);
        return seen_by(view, static_cast<std::int16_t>(number.sign * size), CommentScore::Form::kPlies);
    }

    std::string_view comment_;
    unsigned mover_;
    const CommentSettings& settings_;
};

}  // namespace

const char* describe(NoScore reason) {
    switch (reason) {
        case NoScore::kNoComment: return "no comment";
        case NoScore::kCommands: return "a comment of commands alone, as [%clk 0:05:00]";
        case NoScore::kBook: return "a move of a book";
        case NoScore::kRemark: return "a remark";
        case NoScore::kNoSignOrDepth: return "a number without a sign or a depth, as 8.50";
        case NoScore::kWholeNumber: return "a whole number, as +31 or 31/12";
        case NoScore::kDecimalComma: return "a decimal comma, as +0,31";
        case NoScore::kMate: return "a mate in moves or plies, as M2";
    }
    return "";
}

Evaluation evaluation_in(std::string_view comment, unsigned side, Unit unit) {
    constexpr std::string_view kBegin = "[%eval";
    const std::size_t at = comment.find(kBegin);
    if (at == kNone) return {};
    comment.remove_prefix(at + kBegin.size());
    if (!comment.empty() && comment.front() >= 'a' && comment.front() <= 'z') return {};  // another command
    comment = comment.substr(0, comment.find(']'));
    skip_any(comment, kBlanks);
    comment = comment.substr(0, comment.find_last_not_of(kBlanks) + 1);
    std::optional<Number> number = take_number(comment);
    if (!number) return {{}, true};
    if (number->form == Number::Form::kComma) {  // or one before a depth: ChessBase's [%eval 17,3]
        if (unit != Unit::kCentipawns || !comment.empty()) return {{}, true};
        number->form = Number::Form::kWhole;
    }
    const bool has_depth = comment.starts_with(',') || comment.starts_with('/');
    if (has_depth) {
        comment.remove_prefix(1);
        skip_any(comment, kBlanks);
        if (take_digits(comment).empty()) return {{}, true};
    }
    if (!comment.empty()) return {{}, true};
    if (number->form == Number::Form::kMate) {
        const unsigned winner = number->sign > 0 ? chess::kWhite : chess::kBlack;
        return {chess::white_mate_score(winner, parse_capped_number(number->digits, chess::kMaxMatePlies), side),
                false};
    }
    if (number->form == Number::Form::kPoint) {
        return {static_cast<std::int16_t>(number->sign * of_pawns(number->digits)), false};
    }
    // Without a point it may be of pawns or of centipawns; programs write both.
    if (unit == Unit::kNotSet && !is_zero(number->digits)) return {{}, true};
    return {static_cast<std::int16_t>(number->sign * of_whole(number->digits, unit)), false};
}

CommentScore score_in(std::string_view comment, unsigned mover, const CommentSettings& settings) {
    return CommentReading(comment, mover, settings).read();
}

char* write_engine_score(std::int16_t score, char* out) {
    const int size = std::abs(int{score});
    *out++ = score < 0 ? '-' : '+';
    if (size >= chess::kMateScore - chess::kMaxMatePlies) {
        *out++ = 'M';
        out = std::to_chars(out, out + 4, chess::kMateScore - size).ptr;
        *out++ = ' ';
        return std::ranges::copy(std::string_view(kPlies), out).out;
    }
    out = std::to_chars(out, out + 4, size / 100).ptr;
    *out++ = '.';
    *out++ = static_cast<char>('0' + size / 10 % 10);
    *out++ = static_cast<char>('0' + size % 10);
    return out;
}

}  // namespace sparsepool::pgn
