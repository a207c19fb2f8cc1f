#include "chess/formats/pgn/native/game.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "chess/formats/pgn/native/evaluations.h"
#include "chess/formats/pgn/native/san.h"
#include "chess/native/board/fen.h"
#include "chess/native/formats/record_walk.h"
#include "common/utf8.h"

namespace sparsepool::pgn {
namespace {

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::string_view kBlanks = " \t\r\n\v\f\x1A";  // the last one ends files of DOS
constexpr std::string_view kDigits = "0123456789";
constexpr std::size_t kMaxMoves = 65535;  // of a game
constexpr std::size_t kMaxQuoted = 40;    // bytes of a wrong text in a message

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_lower_letter(char letter) { return letter >= 'a' && letter <= 'z'; }
char to_lower(char letter) { return static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter + ('a' - 'A') : letter); }
bool is_blank(std::string_view text) { return text.find_first_not_of(kBlanks) == kNone; }

std::string quote(std::string_view text) {
    std::string quoted = "'";  // appended to: gcc 12 warns of a sum that begins with a literal
    quoted += shown(text.substr(0, std::min(text.size(), kMaxQuoted)));
    quoted += '\'';
    return quoted;
}

std::size_t find_line_end(std::string_view bytes, std::size_t begin) {
    return std::min(bytes.find('\n', begin), bytes.size());
}

// What a line is, by its beginning.
struct LineStart {
    enum Kind {
        kOther,
        kTag,
        kIncomplete,  // maybe a tag: the bytes end before its value
        kEmpty,       // also an escaped line, which begins with %
    } kind = kOther;
    std::string_view name;  // of the tag
};

// Classifies the line that begins at `begin`: a tag begins with [Name ".
LineStart classify_line(std::string_view bytes, std::size_t begin) {
    std::string_view line = bytes.substr(begin, find_line_end(bytes, begin) - begin);
    const bool is_last = begin + line.size() == bytes.size();
    if (line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    if (line.starts_with('%') || is_blank(line)) return {LineStart::kEmpty, {}};
    if (!line.starts_with('[')) return {};
    const auto is_of_name = [](char letter) {
        return is_lower_letter(to_lower(letter)) || is_digit(letter) || letter == '_';
    };
    std::size_t name_end = 1;
    while (name_end < line.size() && is_of_name(line[name_end])) ++name_end;
    const std::size_t value = std::min(line.find_first_not_of(" \t", name_end), line.size());
    if (value == line.size()) return {is_last ? LineStart::kIncomplete : LineStart::kOther, {}};
    const bool has_name = name_end > 1 && value > name_end;
    if (!has_name || line[value] != '"') return {};
    return {LineStart::kTag, line.substr(1, name_end - 1)};
}

// Parses the result of a game: -1, 0, 1 or kNoResult, White's. Returns nothing for other words.
std::optional<std::int8_t> parse_result(std::string_view word) {
    if (word == "1-0") return std::int8_t{1};
    if (word == "0-1") return std::int8_t{-1};
    if (word == "1/2-1/2") return std::int8_t{0};
    if (word == "*") return chess::kNoResult;
    return std::nullopt;
}

// Finds a tag Event that begins within a line, as a program leaves it that was killed and started again. It must be
// complete, and the next line must begin with a tag. `is_last`: no bytes follow these. Returns npos if there is none.
std::size_t find_event(std::string_view bytes, std::size_t begin, std::size_t end, bool is_last) {
    constexpr std::string_view kEvent = "[Event \"";
    if (bytes.substr(begin).starts_with(kByteOrderMark)) begin += kByteOrderMark.size();
    if (begin >= end) return kNone;
    const std::size_t search_from = begin + 1;  // not at the line's beginning
    const std::string_view line = bytes.substr(search_from, end - search_from);
    const std::size_t tag = line.rfind(kEvent);
    if (tag == kNone) return kNone;
    const std::size_t event = search_from + tag;
    if (end == bytes.size()) return is_last ? event : kNone;  // the tag may be truncated
    const std::size_t bracket = line.find_last_not_of(kBlanks);
    const bool is_complete = bracket > tag + kEvent.size() && line.substr(bracket - 1, 2) == "\"]";
    if (!is_complete) return kNone;
    if (end + 1 == bytes.size()) return is_last ? event : kNone;
    const LineStart next = classify_line(bytes, end + 1);
    const bool is_followed_by_tag = next.kind == LineStart::kTag || (next.kind == LineStart::kIncomplete && is_last);
    return is_followed_by_tag ? event : kNone;
}

// Removes the glyphs of an annotator at the end of a word: Nf3!?, Nf3+-, Nf3=.
std::string_view strip_glyphs(std::string_view word) {
    constexpr std::string_view kGlyphs[] = {"+/-",    "-/+",    "+/=",    "=/+",    "+-",    "-+",
                                            "+=",     "=+",     "=",      "!",      "?",     "\u00b1",
                                            "\u2213", "\u2a72", "\u2a71", "\u221e", "\u25a1"};
    if (is_digit(word.back()) || is_lower_letter(to_lower(word.back()))) return word;
    while (true) {
        const auto* const glyph =
            std::ranges::find_if(kGlyphs, [&](std::string_view candidate) { return word.ends_with(candidate); });
        if (glyph == std::end(kGlyphs)) return word;
        word.remove_suffix(glyph->size());
    }
}

// Removes a move number at the beginning of a word: 12.e4, 12...e4. A number alone leaves an empty word, and a number
// without dots is no move number.
std::string_view strip_move_number(std::string_view word) {
    if (word.front() != '.' && !is_digit(word.front())) return word;
    const std::size_t digits_end = std::min(word.find_first_not_of(kDigits), word.size());
    const std::size_t dots_end = std::min(word.find_first_not_of('.', digits_end), word.size());
    if (dots_end == word.size()) return {};
    return dots_end == digits_end ? word : word.substr(dots_end);
}

// Whether a word has the square of a move, or is castling.
bool looks_like_move(std::string_view word) {
    if (word.starts_with("O-O") || word.starts_with("0-0")) return true;
    for (std::size_t i = 0; i + 1 < word.size(); ++i) {
        const bool is_file = word[i] >= 'a' && word[i] <= 'h';
        const bool is_rank = word[i + 1] >= '1' && word[i + 1] <= '8';
        if (is_file && is_rank) return true;
    }
    return false;
}

// Returns the letter that ends what a brace, a bracket or a semicolon begins.
char closing_letter(char open) {
    switch (open) {
        case '{': return '}';
        case '[': return ']';
        default: return '\n';
    }
}

// Parses the text of a game into a Game. The functions read_... return false at a fault, which is the game's then.
class GameParser {
  public:
    GameParser(std::string_view text, unsigned required_parts, const CommentSettings& settings, Game& game)
        : text_(text), required_parts_(required_parts), settings_(settings), game_(game) {}

    // Parses the game. The result is known only at its end, so the entries get it at last.
    void parse() {
        const bool is_read = read_tags() && set_up() && read_moves();
        if (!is_read && !game_.has_trailing_text) {
            game_.entries.clear();
            return;
        }
        withdraw_doubtful_scores();
        for (std::size_t i = 0; i < game_.entries.size(); ++i) {
            chess::Entry& entry = game_.entries[i];
            if (entry.score == chess::kNoScore) ++game_.unscored.data()[static_cast<std::size_t>(moves_[i].reason)];
            entry.result = static_cast<std::int8_t>(entry.position.side == chess::kWhite ? result_ : -result_);
        }
    }

  private:
    struct Tag {
        std::string_view value;
        std::size_t offset = 0;  // of the value
    };

    bool stop(std::size_t offset, std::string fault) {
        const auto line = std::ranges::count(text_.substr(0, offset), '\n') + 1;
        game_.fault = "line " + std::to_string(line) + " of the game: " + std::move(fault);
        game_.fault_offset = offset;
        return false;
    }

    // Reads lines up to the first that is neither a tag nor empty.
    bool read_tags() {
        while (offset_ < text_.size()) {
            const LineStart start = classify_line(text_, offset_);
            const std::size_t end = find_line_end(text_, offset_);
            if (start.kind == LineStart::kTag) {
                if (!read_tag(start.name, end)) return false;
            } else if (start.kind != LineStart::kEmpty) {
                return true;
            }
            offset_ = std::min(end + 1, text_.size());
        }
        return true;
    }

    // Reads the tag in the line that ends at `end`: [Name "value"].
    bool read_tag(std::string_view name, std::size_t end) {
        const std::string_view line = text_.substr(offset_, end - offset_);
        const std::size_t value_begin = line.find('"') + 1;
        const std::size_t value_end = line.rfind('"');
        const std::size_t bracket = line.find_last_not_of(kBlanks);
        game_.has_content = true;
        const bool is_closed =
            value_end >= value_begin && line[bracket] == ']' && line.find_first_not_of(" \t", value_end + 1) == bracket;
        const std::string_view value =
            is_closed ? line.substr(value_begin, value_end - value_begin) : std::string_view();
        const bool has_two_tags = value.find("\"]") != kNone;
        if (!is_closed || has_two_tags) {
            return stop(offset_, "a tag is [Name \"value\"], not " + quote(line));
        }
        const Tag tag{value, offset_ + value_begin};
        if (name == "FEN") return set_tag(name, tag, fen_);
        if (name == "Variant") return set_tag(name, tag, variant_);
        if (name == "Result") return set_tag(name, tag, result_tag_);
        return true;
    }

    // Sets a tag, which may stand twice only with the same value.
    bool set_tag(std::string_view name, const Tag& tag, Tag& known_tag) {
        if (!known_tag.value.empty() && known_tag.value != tag.value) {
            return stop(tag.offset, "the tag " + std::string(name) + " says " + quote(known_tag.value) + " and " +
                                        quote(tag.value));
        }
        known_tag = tag;
        return true;
    }

    // Sets up the first position, by the tags.
    bool set_up() {
        bool is_chess960 = false;
        if (!is_chess(variant_.value, is_chess960)) {
            return stop(variant_.offset, "a game of " + quote(variant_.value) + ", which is other chess");
        }
        unsigned move_number = 0;
        const std::string_view fen = fen_.value.empty() ? kStart : fen_.value;
        const std::string problem = chess::parse_fen(fen, 2, entry_.position, move_number, entry_.missing_parts);
        if (!problem.empty()) {
            if (problem == chess::kNotOneKingEach) game_.illegal = chess::Illegal::kKings;
            return stop(fen_.offset, "the FEN: " + problem);
        }
        // Whether the ply is known is checked with the move number.
        const unsigned missing = entry_.missing_parts & required_parts_ & ~unsigned{chess::kPlyPart};
        if (const char* fault = chess::describe_missing_part(missing)) return stop(fen_.offset, fault);
        if (const char* fault = chess::find_move_number_problem(move_number, required_parts_))
            return stop(fen_.offset, fault);
        entry_.position.chess960 = entry_.position.chess960 || is_chess960;
        entry_.ply = chess::ply_of(move_number, entry_.position.side);
        return true;
    }

    // Reads the movetext up to the end of the game.
    bool read_moves() {
        skip_blanks();
        while (offset_ < text_.size()) {
            game_.has_content = true;
            if (!read_token()) return false;
            skip_blanks();
        }
        if (has_ended_ || !game_.has_content) return true;
        return stop(text_.find_last_not_of(kBlanks) + 1, "the game has no end: 1-0, 0-1, 1/2-1/2 or *");
    }

    void skip_blanks() { offset_ = std::min(text_.find_first_not_of(kBlanks, offset_), text_.size()); }

    bool read_token() {
        const char letter = text_[offset_];
        const bool begins_line = offset_ == 0 || text_[offset_ - 1] == '\n';
        if (letter == '%' && begins_line) {  // an escaped line
            offset_ = find_line_end(text_, offset_);
            return true;
        }
        if (text_.substr(offset_).starts_with(kByteOrderMark)) {
            offset_ += kByteOrderMark.size();
            return true;
        }
        if (letter == '$') {  // a glyph by its number
            offset_ = std::min(text_.find_first_not_of(kDigits, offset_ + 1), text_.size());
            return true;
        }
        if (letter == '{' || letter == ';') return read_comment();
        if (letter == '(') return skip_variation();
        return read_word();
    }

    // Steps behind a comment, which is in braces, or from a semicolon to the end of the line.
    bool skip_comment() {
        const bool has_braces = text_[offset_] == '{';
        const std::size_t end = has_braces ? text_.find('}', offset_) : find_line_end(text_, offset_);
        if (end == kNone) return stop(offset_, "a comment has no end");
        offset_ = end + (has_braces ? 1 : 0);
        return true;
    }

    // Reads a comment: White's score by Lichess of the position, and the score of the last move.
    bool read_comment() {
        const std::size_t begin = offset_;
        if (!skip_comment()) return false;
        const std::size_t end = text_[begin] == '{' ? offset_ - 1 : offset_;
        const std::string_view comment = text_.substr(begin + 1, end - begin - 1);
        const Evaluation evaluation = parse_evaluation(comment, entry_.position.side, settings_.unit);
        if (evaluation.is_wrong) return stop(begin, describe_wrong_evaluation(comment));
        if (evaluation.score) white_score_ = evaluation.score;
        if (game_.entries.empty() || moves_.back().is_scored) return true;
        return read_score(comment, begin);
    }

    static std::string describe_wrong_evaluation(std::string_view comment) {
        const std::string_view tail = comment.substr(comment.find("[%eval"));
        const std::size_t bracket = std::min(tail.find(']'), tail.size() - 1);
        return "an evaluation is [%eval 0.17] in pawns or [%eval #-3], not " + quote(tail.substr(0, bracket + 1)) +
               "; of whole numbers data.chess.pgn.unit (--pgn-unit) says what they are";
    }

    // Gives the last move the score of a comment behind it, or records why the comment has none.
    bool read_score(std::string_view comment, std::size_t begin) {
        MoveComments& move = moves_.back();
        CommentScore score = parse_comment_score(comment, game_.entries.back().position.side, settings_);
        if (score.form == CommentScore::Form::kUnsigned) has_unsigned_ = true;
        if (score.form == CommentScore::Form::kNotPlies) has_mates_not_in_plies_ = true;
        switch (score.kind) {
            case CommentScore::Kind::kDamage: return stop(begin, std::move(score.fault));
            case CommentScore::Kind::kWhitesAfterMove: white_score_ = score.score; break;
            case CommentScore::Kind::kNone: move.reason = std::max(move.reason, score.reason); break;
            case CommentScore::Kind::kMovers:
                game_.entries.back().score = score.score;
                move.is_scored = true;
                move.form = score.form;
                break;
        }
        return true;
    }

    // Withdraws scores that other comments of the game make doubtful: who writes 8.50 for White writes -1.20 for White,
    // too, and who counts one mate in moves counts all mates in moves.
    void withdraw_doubtful_scores() {
        const bool is_by_annotator = has_unsigned_ && settings_.view != View::kMover;
        if (!is_by_annotator && !has_mates_not_in_plies_) return;
        std::optional<std::int16_t> withdrawn;  // White's score that the previous move's comment gives this position
        for (std::size_t i = 0; i < game_.entries.size(); ++i) {
            chess::Entry& entry = game_.entries[i];
            const std::optional<std::int16_t> white_score = std::exchange(withdrawn, std::nullopt);
            if (is_by_annotator && moves_[i].form == CommentScore::Form::kSigned) {
                const int signed_score = entry.position.side == chess::kWhite ? entry.score : -entry.score;
                withdrawn = static_cast<std::int16_t>(signed_score);
                withdraw_score(i, NoScore::kNoSignOrDepth);
            } else if (has_mates_not_in_plies_ && moves_[i].form == CommentScore::Form::kPlies) {
                withdraw_score(i, NoScore::kMate);
            }
            if (settings_.view == View::kWhite && white_score && entry.score == chess::kNoScore) {
                (void)chess::convert_score_view(*white_score, entry.position.side, entry.score);
            }
        }
    }

    void withdraw_score(std::size_t move, NoScore reason) {
        game_.entries[move].score = moves_[move].score_before;
        moves_[move].reason = reason;
    }

    // Steps behind a variation, which is in parentheses and may have comments and other variations.
    bool skip_variation() {
        const std::size_t begin = offset_;
        std::size_t depth = 0;
        do {
            offset_ = text_.find_first_of("(){;", offset_);
            if (offset_ == kNone) return stop(begin, "a variation has no end");
            const char letter = text_[offset_];
            if (letter == '{' || letter == ';') {
                if (!skip_comment()) return false;
                continue;
            }
            if (letter == '(') ++depth;
            if (letter == ')') --depth;
            ++offset_;
        } while (depth != 0);
        return true;
    }

    // Reads a result, a move with or without its number, or a move number.
    bool read_word() {
        const std::size_t begin = offset_;
        offset_ = std::min(text_.find_first_of(" \t\r\n\v\f\x1A{};()$", begin + 1), text_.size());
        const std::string_view word = text_.substr(begin, offset_ - begin);
        if (has_ended_) {
            game_.has_trailing_text = text_[begin - 1] == '\n';
            return stop(begin, "behind the result stands " + quote(word) + ": the next game begins with tags");
        }
        if (const auto result = parse_result(word)) return end_game(*result, begin);
        const std::string_view move = strip_move_number(word);
        if (move.empty()) return true;
        const std::string_view san = strip_glyphs(move);
        if (san.empty() || san == "e.p.") return true;
        return play(san, move, begin);
    }

    // Plays a move and adds its entry. `word`: the move with its glyphs, for messages.
    bool play(std::string_view san, std::string_view word, std::size_t begin) {
        if (game_.entries.size() == kMaxMoves) return stop(begin, "a game of more than 65,535 moves");
        const chess::Position before = entry_.position;
        const SanFault fault = parse_san(san, before, entry_.move);
        if (fault == SanFault::kNoMove) return stop(begin, quote(word) + " is no move");
        if (fault == SanFault::kIllegal) return stop(begin, quote(word) + " is no legal move there");
        if (fault == SanFault::kAmbiguous) return stop(begin, quote(word) + " may be several moves there");
        entry_.score = chess::kNoScore;
        if (white_score_) (void)chess::convert_score_view(*white_score_, before.side, entry_.score);
        white_score_.reset();
        game_.entries.push_back(entry_);
        moves_.push_back({.score_before = entry_.score});
        (void)chess::play<chess::Variant::kChess960>(entry_.position, entry_.move);
        entry_.ply = chess::saturating_increment(entry_.ply);
        return true;
    }

    // Ends the game with the result at its end, which must agree with the tag Result.
    bool end_game(std::int8_t result, std::size_t begin) {
        has_ended_ = true;
        result_ = result;
        const std::string_view tag = result_tag_.value;
        const auto tag_result = parse_result(tag);
        const bool is_tag_unknown = tag.find_first_not_of("?- ") == kNone;
        if (!tag_result && result == chess::kNoResult && !is_tag_unknown) {
            return stop(result_tag_.offset, "the tag Result says " + quote(tag) + ", not 1-0, 0-1, 1/2-1/2 or *");
        }
        if (!tag_result || *tag_result == chess::kNoResult) return true;
        if (result != chess::kNoResult && result != *tag_result) {
            const std::string_view word = text_.substr(begin, offset_ - begin);
            return stop(begin, "ends with " + quote(word) + ", and its tag Result says " + quote(tag));
        }
        result_ = *tag_result;
        return true;
    }

    // What the comments behind a move say.
    struct MoveComments {
        std::int16_t score_before = chess::kNoScore;  // of its position, by the comment behind the previous move
        NoScore reason = NoScore::kNoComment;
        CommentScore::Form form = CommentScore::Form::kPlain;
        bool is_scored = false;  // by its player
    };

    std::string_view text_;
    unsigned required_parts_;
    const CommentSettings& settings_;
    Game& game_;
    std::size_t offset_ = 0;
    Tag fen_, variant_, result_tag_;
    chess::Entry entry_;                       // the next one
    std::optional<std::int16_t> white_score_;  // of its position
    std::vector<MoveComments> moves_;          // of each entry
    bool has_unsigned_ = false;
    bool has_mates_not_in_plies_ = false;
    bool has_ended_ = false;
    std::int8_t result_ = chess::kNoResult;  // White's
};

// Whether a variant's name, in lower case and without other signs, means chess as usual.
bool is_standard_name(std::string_view name) {
    constexpr std::string_view kNames[] = {"", "chess", "standard", "normal", "classical", "fromposition", "orthodox"};
    return std::ranges::find(kNames, name) != std::end(kNames);
}

bool is_chess960_name(std::string_view name) {
    constexpr std::string_view kNames[] = {"chess960",           "fischerandom", "fischerrandom", "fischerandomchess",
                                           "fischerrandomchess", "freestyle",    "freestylechess"};
    return std::ranges::find(kNames, name) != std::end(kNames);
}

}  // namespace

bool is_chess(std::string_view variant, bool& chess960) {
    std::string name;
    for (const char letter : variant) {
        const char lower = to_lower(letter);
        if (is_lower_letter(lower) || is_digit(lower)) name += lower;
    }
    chess960 = is_chess960_name(name);
    return chess960 || is_standard_name(name);
}

std::size_t find_game_end(std::string_view bytes, std::size_t begin, bool is_last) {
    bool has_tags = false;
    bool has_moves = false;
    std::size_t line = begin;
    while (line < bytes.size()) {
        const LineStart start = classify_line(bytes, line);
        if (start.kind == LineStart::kTag) {
            if (has_moves || (has_tags && start.name == "Event")) return line;
            has_tags = true;
        } else if (start.kind == LineStart::kIncomplete && has_moves && is_last && bytes[line] == '[') {
            return line;  // a truncated tag
        } else if (start.kind == LineStart::kOther) {
            has_moves = true;
        }
        do {  // behind moves, only lines that may begin with a tag are classified
            const std::size_t end = find_line_end(bytes, line);
            const std::size_t event = find_event(bytes, line, end, is_last);
            if (event != kNone) return event;
            line = end + 1;
        } while (has_moves && line < bytes.size() && bytes[line] != '[' && bytes[line] != kByteOrderMark.front());
    }
    return kNone;
}

bool begins_with_tag(std::string_view bytes) {
    for (std::size_t line = 0; line < bytes.size(); line = find_line_end(bytes, line) + 1) {
        const LineStart start = classify_line(bytes, line);
        if (start.kind != LineStart::kEmpty) return start.kind == LineStart::kTag;
    }
    return false;
}

std::size_t count_moves(std::string_view text) {
    std::size_t num_moves = 0;
    std::size_t depth = 0;  // of variations
    std::size_t offset = 0;
    while (offset < text.size()) {
        const char letter = text[offset];
        if (letter == '{' || letter == '[' || letter == ';') {  // a comment or tag
            offset = std::min(text.find(closing_letter(letter), offset), text.size() - 1) + 1;
            continue;
        }
        if (letter == '(') ++depth;
        if (letter == ')' && depth != 0) --depth;
        const std::size_t word_end = std::min(text.find_first_of(" \t\r\n{};()[", offset), text.size());
        if (depth == 0 && looks_like_move(text.substr(offset, word_end - offset))) ++num_moves;
        offset = std::max(word_end, offset + 1);
    }
    return num_moves;
}

void read_game(std::string_view text, unsigned required_parts, const CommentSettings& settings, Game& game) {
    game.entries.clear();
    game.fault.clear();
    game.illegal = chess::Illegal::kNone;
    game.has_content = false;
    game.has_trailing_text = false;
    game.unscored = {};
    GameParser(text, required_parts, settings, game).parse();
}

}  // namespace sparsepool::pgn
