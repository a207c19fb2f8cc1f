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
constexpr std::size_t kMaxQuoted = 40;      // bytes of a wrong comment in a message
constexpr std::size_t kMaxDepthDigits = 3;  // longer numbers are a year or a number of nodes
constexpr char kPlies[] = "plies";          // behind mates that this project writes

bool begins_with_digit(std::string_view text) { return !text.empty() && text.front() >= '0' && text.front() <= '9'; }

// The functions consume_... remove what they read from the beginning of the text.

void consume_all(std::string_view& text, std::string_view letters) {
    text.remove_prefix(std::min(text.find_first_not_of(letters), text.size()));
}

// Removes the first letter if it is one of these, and returns whether it was.
bool consume_one(std::string_view& text, std::string_view letters) {
    const bool has_letter = !text.empty() && letters.find(text.front()) != kNone;
    if (has_letter) text.remove_prefix(1);
    return has_letter;
}

std::string_view consume_digits(std::string_view& text) {
    const std::string_view digits = text.substr(0, std::min(text.find_first_not_of(kDigits), text.size()));
    text.remove_prefix(digits.size());
    return digits;
}

// Removes everything up to and including a letter; the whole text if it does not have the letter.
void consume_through(std::string_view& text, char letter) {
    text.remove_prefix(std::min(text.find(letter), text.size() - 1) + 1);
}

// Parses digits; a number beyond `max` is `max`.
int parse_capped_number(std::string_view digits, int max) {
    int number = max;
    (void)std::from_chars(digits.data(), digits.data() + digits.size(), number);  // stays if out of range
    return std::min(number, max);
}

// Parses pawns with a decimal point into centipawns, rounded, and smaller than any mate.
std::int16_t parse_pawns(std::string_view number) {
    double pawns = 0;
    (void)std::from_chars(number.data(), number.data() + number.size(), pawns);
    return static_cast<std::int16_t>(std::min(std::nearbyint(pawns * 100), double{chess::kMaxPawnScore}));
}

// Parses a whole number of this unit into centipawns.
std::int16_t parse_whole_number(std::string_view digits, Unit unit) {
    const int number = parse_capped_number(digits, chess::kMaxPawnScore);
    const int centipawns = unit == Unit::kPawns ? 100 * number : number;
    return static_cast<std::int16_t>(std::min(centipawns, chess::kMaxPawnScore));
}

bool is_zero(std::string_view digits) { return digits.find_first_not_of('0') == kNone; }

struct Number {
    enum class Form : std::uint8_t { kPoint, kWhole, kComma, kMate };
    Form form = Form::kWhole;
    bool has_sign = false;
    int sign = 1;
    bool is_hash = false;         // a mate written #3, which counts moves
    std::string_view digits;      // with the decimal point; before a comma
    std::string_view hundredths;  // behind a comma
};

void consume_sign(std::string_view& text, Number& number) {
    if (number.has_sign) return;
    number.sign = text.starts_with('-') ? -1 : 1;
    number.has_sign = consume_one(text, "+-");
}

// Reads the number of a mate, behind its sign: M5, #-5.
std::optional<Number> consume_mate(std::string_view& text, Number number) {
    number.form = Number::Form::kMate;
    number.is_hash = text.starts_with('#');
    text.remove_prefix(1);
    consume_sign(text, number);
    number.digits = consume_digits(text);
    if (number.digits.empty()) return std::nullopt;
    return number;
}

// Reads the number that the text begins with, as +0.31, -0,31, 17, M5, -M5 or #-5.
std::optional<Number> consume_number(std::string_view& text) {
    Number number;
    consume_sign(text, number);
    if (text.starts_with('M') || text.starts_with('#')) return consume_mate(text, number);
    const std::string_view begin = text;
    number.digits = consume_digits(text);
    if (number.digits.empty()) return std::nullopt;
    const bool has_decimals = text.size() > 1 && begins_with_digit(text.substr(1));
    if (has_decimals && text.front() == '.') {
        number.form = Number::Form::kPoint;
        text.remove_prefix(1);
        (void)consume_digits(text);
        number.digits = begin.substr(0, begin.size() - text.size());
    } else if (has_decimals && text.front() == ',') {
        number.form = Number::Form::kComma;
        text.remove_prefix(1);
        number.hundredths = consume_digits(text);
    }
    return number;
}

// Parses pawns with a decimal comma into centipawns.
std::int16_t parse_comma_pawns(const Number& number) {
    std::string text(number.digits.substr(0, 9));
    text += '.';
    text += number.hundredths.substr(0, 9);
    return parse_pawns(text);
}

// What stands behind a number: 0.31/12 0.5s, 0.31 12/18.
struct Suffix {
    bool has_depth = false;
    bool has_time = false;
    bool has_text = false;        // anything but numbers, commas and what stands in brackets
    bool continues_word = false;  // the number is a part of something else: 3rd, 12/12/2021, 50%
};

// Reads a depth, as /12, and returns whether there is one.
bool consume_depth(std::string_view& text) {
    if (!text.starts_with('/')) return false;
    std::string_view tail = text.substr(1);
    const std::size_t num_digits = consume_digits(tail).size();
    if (num_digits == 0 || num_digits > kMaxDepthDigits) return false;
    text = tail;
    return true;
}

// Returns what stands behind the number in a word: s in 0.05s, nothing in 0:07, 1234 and 12/18. No value for a word
// that does not begin with a number.
std::optional<std::string_view> find_time_unit(std::string_view word) {
    const std::size_t end = word.find_last_of(kDigits) + 1;
    const std::string_view number = word.substr(0, end);
    if (!begins_with_digit(number) || number.find_first_not_of("0123456789.,:/") != kNone) return std::nullopt;
    return word.substr(end);
}

// Reads the word behind a number and its depth, a time or a second depth.
void read_suffix_word(std::string_view word, Suffix& suffix) {
    while (word.ends_with(',')) word.remove_suffix(1);
    const std::optional<std::string_view> unit = find_time_unit(word);
    const bool is_number = unit && (unit->empty() || *unit == "s" || *unit == "ms");
    suffix.has_text = !is_number;
    if (!is_number) return;
    suffix.has_time = !unit->empty();
    if (word.find('/') != kNone) suffix.has_depth = true;
}

// Reads what stands behind a number of this form.
Suffix read_suffix(std::string_view text, Number::Form form) {
    Suffix suffix;
    const bool has_second_comma = text.starts_with(',') && begins_with_digit(text.substr(1));  // as in 1.234,56
    suffix.has_depth = consume_depth(text);
    if (suffix.has_depth && form == Number::Form::kPoint) (void)consume_depth(text);  // the selective depth
    const bool ends_here = text.empty() || text.front() == ',' || kBlanks.find(text.front()) != kNone;
    suffix.continues_word = has_second_comma || !ends_here;
    consume_all(text, " \t\r\n,");
    if (suffix.continues_word || text.empty()) return suffix;
    if (text.front() == '(' || text.front() == '[') {  // (12), [%emt 5]; behind a depth also a line, (Rh7)
        const bool is_data = begins_with_digit(text.substr(1)) || text.starts_with("[%");
        suffix.has_text = !suffix.has_depth && !is_data;
        return suffix;
    }
    read_suffix_word(text.substr(0, text.find_first_of(kBlanks)), suffix);
    return suffix;
}

CommentScore no_score(NoScore reason, CommentScore::Form form = CommentScore::Form::kPlain) {
    CommentScore none;
    none.reason = reason;
    none.form = form;
    return none;
}

CommentScore damage(std::string_view comment, const char* reason) {
    CommentScore score;
    score.kind = CommentScore::Kind::kDamage;
    score.fault = "the comment '" + shown(comment.substr(0, std::min(comment.size(), kMaxQuoted))) + "' " + reason;
    return score;
}

constexpr char kWhole[] =
    "has a whole number, which may be of pawns or of centipawns; say which by data.chess.pgn.unit (--pgn-unit)";
constexpr char kComma[] = "has a decimal comma; if that is what it is, set data.chess.pgn.unit (--pgn-unit) to pawns";

// Parses a comment behind a move of `mover`.
class CommentParser {
  public:
    CommentParser(std::string_view comment, unsigned mover, const CommentSettings& settings)
        : comment_(comment), mover_(mover), settings_(settings) {}

    CommentScore parse() const {
        std::string_view text = comment_;
        consume_all(text, kBlanks);
        if (text.empty()) return no_score(NoScore::kNoComment);
        while (text.starts_with("[%")) {  // commands
            consume_through(text, ']');
            consume_all(text, kBlanks);
        }
        if (text.empty()) return no_score(NoScore::kCommands);
        if (is_book(text)) return no_score(NoScore::kBook);
        const std::size_t key = text.find("wv=");
        if (key != kNone && is_key(text, key)) return parse_tcec(text.substr(key + 3));
        if (text.starts_with('(')) return parse_arena(text);
        return parse_score(text);
    }

  private:
    // Whether the text begins with the word book, in any case, maybe behind a parenthesis.
    static bool is_book(std::string_view text) {
        (void)consume_one(text, "(");
        std::string lower;
        for (const char letter : text.substr(0, 5)) {
            lower += static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter + ('a' - 'A') : letter);
        }
        return lower.starts_with("book") && (lower.size() == 4 || lower.back() < 'a' || lower.back() > 'z');
    }

    // Whether a key begins at this offset: at the beginning, or behind a blank or comma.
    static bool is_key(std::string_view text, std::size_t key) {
        return key == 0 || kBlanks.find(text[key - 1]) != kNone || text[key - 1] == ',';
    }

    // Parses the value of wv, as TCEC writes it: White's score of the position before the move, whoever made the move.
    CommentScore parse_tcec(std::string_view text) const {
        std::optional<Number> number = consume_number(text);
        const bool ends_here = text.empty() || text.front() == ',' || kBlanks.find(text.front()) != kNone;
        if (!number || !ends_here) return no_score(NoScore::kRemark);
        if (number->form == Number::Form::kMate) number->has_sign = false;  // only Black's mates have a sign
        return convert(*number, {.has_depth = true, .has_time = true}, View::kWhite);
    }

    // Parses a comment as Arena writes it: moves in parentheses, then a score with a depth.
    CommentScore parse_arena(std::string_view text) const {
        consume_through(text, ')');
        consume_all(text, kBlanks);
        CommentScore score = parse_score(text);
        const bool has_no_depth =
            score.form == CommentScore::Form::kSigned || score.form == CommentScore::Form::kUnsigned;
        return has_no_depth ? no_score(NoScore::kRemark) : score;
    }

    // Parses a comment that begins with a score.
    CommentScore parse_score(std::string_view text) const {
        const std::optional<Number> number = consume_number(text);
        if (!number) return no_score(NoScore::kRemark);
        if (number->form == Number::Form::kMate && number->has_sign && is_plies(text)) {
            return mate_in_plies(*number, settings_.view);
        }
        const Suffix suffix = read_suffix(text, number->form);
        const bool is_record = number->has_sign && suffix.has_depth && number->form != Number::Form::kWhole;
        if (suffix.continues_word || (suffix.has_text && !is_record)) return no_score(NoScore::kRemark);
        if (settings_.view == View::kNotSet && may_be_points(*number, text)) return no_score(NoScore::kRemark);
        return convert(*number, suffix, settings_.view);
    }

    // Whether the number may be points of a player, as 2.5/3: halves, and no more than there are games.
    static bool may_be_points(const Number& number, std::string_view suffix) {
        const std::string_view points = number.digits;
        const bool has_halves = points.ends_with(".5") || (points.ends_with(".0") && points != "0.0");
        if (number.form != Number::Form::kPoint || number.has_sign || !has_halves) return false;
        if (!consume_one(suffix, "/")) return false;
        const int games = parse_capped_number(consume_digits(suffix), chess::kMaxPawnScore);
        consume_all(suffix, kBlanks);
        return suffix.empty() && parse_pawns(points) <= 100 * games;
    }

    // Whether the rest of a comment is the word that this project writes behind mates.
    static bool is_plies(std::string_view text) {
        consume_all(text, kBlanks);
        if (!text.starts_with(kPlies)) return false;
        text.remove_prefix(sizeof kPlies - 1);
        consume_all(text, kBlanks);
        return text.empty();
    }

    // Converts a number to a score. The more a comment looks like an engine's record (sign, depth, time), the less
    // it may be a number of something else.
    CommentScore convert(const Number& number, const Suffix& suffix, View view) const {
        const int evidence = (number.has_sign ? 1 : 0) + (suffix.has_depth ? 1 : 0) + (suffix.has_time ? 1 : 0);
        const bool is_record = evidence > 1;
        const bool knows_unit = settings_.unit != Unit::kNotSet;
        switch (number.form) {
            case Number::Form::kMate: return convert_mate(number, view);
            case Number::Form::kPoint: return convert_size(parse_pawns(number.digits), number, suffix, view);
            case Number::Form::kComma:
                if (settings_.unit == Unit::kPawns) {
                    return convert_size(parse_comma_pawns(number), number, suffix, view);
                }
                return is_record ? damage(comment_, kComma) : no_score(NoScore::kDecimalComma);
            case Number::Form::kWhole:
                if (!knows_unit && !is_record) return no_score(NoScore::kWholeNumber);
                if (!knows_unit && !is_zero(number.digits)) return damage(comment_, kWhole);
                return convert_size(parse_whole_number(number.digits, settings_.unit), number, suffix, view);
        }
        return no_score(NoScore::kRemark);
    }

    // Gives the score of this size its sign and, by depth and sign, its form and view.
    CommentScore convert_size(std::int16_t size, const Number& number, const Suffix& suffix, View view) const {
        using Form = CommentScore::Form;
        const auto score = static_cast<std::int16_t>(number.sign * size);
        if (suffix.has_depth) return score_in_view(view, score, Form::kPlain);
        if (number.has_sign) return score_in_view(view, score, Form::kSigned);
        const Form form = size == 0 ? Form::kPlain : Form::kUnsigned;  // zero has no sign
        if (view == View::kMover) return score_in_view(view, score, form);
        if (view == View::kNotSet) return no_score(NoScore::kNoSignOrDepth, form);
        CommentScore after_move;
        after_move.kind = CommentScore::Kind::kWhitesAfterMove;
        after_move.form = form;
        after_move.score = score;
        return after_move;
    }

    // Returns a score of this view, converted to the mover's.
    CommentScore score_in_view(View view, std::int16_t score, CommentScore::Form form) const {
        const bool is_opposite = view == View::kWhite && mover_ == chess::kBlack;
        CommentScore result;
        result.kind = CommentScore::Kind::kMovers;
        result.form = form;
        result.score = is_opposite ? static_cast<std::int16_t>(-score) : score;
        return result;
    }

    // Converts a mate, which counts moves if the unit is centipawns, as in UCI, or else plies, where that is certain.
    CommentScore convert_mate(const Number& number, View view) const {
        const unsigned side = view == View::kWhite ? unsigned{chess::kWhite} : mover_;
        const unsigned winner = number.sign > 0 ? side : side ^ 1U;
        const int count = parse_capped_number(number.digits, chess::kMaxMatePlies);
        if (count == 0) return no_score(NoScore::kMate);  // no move follows a mate
        if (settings_.unit == Unit::kCentipawns) {
            const std::int16_t white = chess::white_mate_score(winner, count, mover_);
            const std::int16_t score = mover_ == chess::kWhite ? white : static_cast<std::int16_t>(-white);
            return score_in_view(View::kMover, score, CommentScore::Form::kPlain);
        }
        // A mover who mates does so in an odd number of plies, and one who is mated in an even number.
        const bool is_odd = parse_capped_number(number.digits.substr(number.digits.size() - 1), 9) % 2 == 1;
        const bool may_be_plies = is_odd == (winner == mover_);
        const bool is_certain = number.has_sign || settings_.unit == Unit::kPawns;
        if (number.is_hash || !is_certain || !may_be_plies) {
            return no_score(NoScore::kMate, CommentScore::Form::kNotPlies);
        }
        return mate_in_plies(number, view);
    }

    CommentScore mate_in_plies(const Number& number, View view) const {
        const int size = chess::kMateScore - parse_capped_number(number.digits, chess::kMaxMatePlies);
        return score_in_view(view, static_cast<std::int16_t>(number.sign * size), CommentScore::Form::kPlies);
    }

    std::string_view comment_;
    unsigned mover_;
    const CommentSettings& settings_;
};

// Returns what stands in the command [%eval ...] of a comment, trimmed; nothing if the comment has no such command.
std::optional<std::string_view> find_eval_command(std::string_view comment) {
    constexpr std::string_view kBegin = "[%eval";
    const std::size_t begin = comment.find(kBegin);
    if (begin == kNone) return std::nullopt;
    std::string_view value = comment.substr(begin + kBegin.size());
    const bool is_longer_name = !value.empty() && value.front() >= 'a' && value.front() <= 'z';
    if (is_longer_name) return std::nullopt;
    value = value.substr(0, value.find(']'));
    consume_all(value, kBlanks);
    return value.substr(0, value.find_last_not_of(kBlanks) + 1);
}

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

Evaluation parse_evaluation(std::string_view comment, unsigned side, Unit unit) {
    constexpr Evaluation kWrong{{}, true};
    const std::optional<std::string_view> command = find_eval_command(comment);
    if (!command) return {};
    std::string_view text = *command;
    std::optional<Number> number = consume_number(text);
    if (!number) return kWrong;
    if (number->form == Number::Form::kComma) {  // not a decimal one, but before a depth: ChessBase's [%eval 17,3]
        if (unit != Unit::kCentipawns || !text.empty()) return kWrong;
        number->form = Number::Form::kWhole;
    }
    if (consume_one(text, ",/")) {  // a depth
        consume_all(text, kBlanks);
        if (consume_digits(text).empty()) return kWrong;
    }
    if (!text.empty()) return kWrong;
    if (number->form == Number::Form::kMate) {
        const unsigned winner = number->sign > 0 ? chess::kWhite : chess::kBlack;
        const int moves = parse_capped_number(number->digits, chess::kMaxMatePlies);
        return {chess::white_mate_score(winner, moves, side), false};
    }
    if (number->form == Number::Form::kPoint) {
        return {static_cast<std::int16_t>(number->sign * parse_pawns(number->digits)), false};
    }
    // Programs write whole numbers both of pawns and of centipawns.
    if (unit == Unit::kNotSet && !is_zero(number->digits)) return kWrong;
    return {static_cast<std::int16_t>(number->sign * parse_whole_number(number->digits, unit)), false};
}

CommentScore parse_comment_score(std::string_view comment, unsigned mover, const CommentSettings& settings) {
    return CommentParser(comment, mover, settings).parse();
}

// Writes pawns with two decimals, or plies to mate.
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
