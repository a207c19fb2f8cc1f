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
constexpr std::size_t kMostMoves = 65535;                // of a game
constexpr std::size_t kMaxQuoted = 40;                   // letters of what is wrong

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_letter(char letter) { return letter >= 'a' && letter <= 'z'; }  // a small one
char lower(char letter) { return static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter + ('a' - 'A') : letter); }
bool is_blank(std::string_view text) { return text.find_first_not_of(kBlanks) == kNone; }

std::string quoted(std::string_view text) {
    std::string words = "'";
    words += shown(text.substr(0, std::min(text.size(), kMaxQuoted)));
    words += '\'';
    return words;
}

std::size_t line_end(std::string_view bytes, std::size_t at) { return std::min(bytes.find('\n', at), bytes.size()); }

// How a line begins.
struct LineStart {
    enum Kind { kOther, kTag, kOpen, kEmpty } kind = kOther;  // kOpen: the bytes end before that can be said
    std::string_view name;                                    // of the tag
};

LineStart start_of(std::string_view bytes, std::size_t at) {
    std::string_view line = bytes.substr(at, line_end(bytes, at) - at);
    const bool open = at + line.size() == bytes.size();
    if (line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    if (line.starts_with('%') || is_blank(line)) return {LineStart::kEmpty, {}};
    if (!line.starts_with('[')) return {};
    std::size_t end = 1;
    while (end < line.size() && (is_letter(lower(line[end])) || is_digit(line[end]) || line[end] == '_')) ++end;
    const std::size_t quote = std::min(line.find_first_not_of(" \t", end), line.size());
    if (quote == line.size()) return {open ? LineStart::kOpen : LineStart::kOther, {}};
    if (end == 1 || quote == end || line[quote] != '"') return {};
    return {LineStart::kTag, line.substr(1, end - 1)};
}

// -1, 0, 1 or kNoResult, White's; nothing for other words.
std::optional<std::int8_t> result_of(std::string_view word) {
    if (word == "1-0") return std::int8_t{1};
    if (word == "0-1") return std::int8_t{-1};
    if (word == "1/2-1/2") return std::int8_t{0};
    if (word == "*") return chess::kNoResult;
    return std::nullopt;
}

// Where a tag of Event begins within a line, as a program leaves it that was killed and began again: a whole one,
// behind whose line another tag begins. `last`: no bytes follow.
std::size_t find_event(std::string_view bytes, std::size_t begin, std::size_t end, bool last) {
    constexpr std::string_view kEvent = "[Event \"";
    begin += bytes.substr(begin).starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
    if (begin++ >= end) return kNone;
    const std::string_view line = bytes.substr(begin, end - begin);
    const std::size_t found = line.rfind(kEvent);
    if (found == kNone) return kNone;
    if (end == bytes.size()) return last ? begin + found : kNone;  // cut off
    const std::size_t bracket = line.find_last_not_of(kBlanks);
    const bool is_whole = bracket > found + kEvent.size() && line.substr(bracket - 1, 2) == "\"]";
    if (!is_whole || end + 1 == bytes.size()) return is_whole && last ? begin + found : kNone;
    const LineStart next = start_of(bytes, end + 1);
    const bool is_followed = next.kind == LineStart::kTag || (next.kind == LineStart::kOpen && last);
    return is_followed ? begin + found : kNone;
}

// Removes the glyphs of an annotator that a word ends with: Nf3!?, Nf3+-, Nf3=.
void remove_glyphs(std::string_view& word) {
    if (is_digit(word.back()) || is_letter(lower(word.back()))) return;
    constexpr std::string_view kGlyphs[] = {"+/-",    "-/+",    "+/=",    "=/+",    "+-",    "-+",
                                            "+=",     "=+",     "=",      "!",      "?",     "\u00b1",
                                            "\u2213", "\u2a72", "\u2a71", "\u221e", "\u25a1"};
    for (auto glyph = std::begin(kGlyphs); glyph != std::end(kGlyphs);) {
        if (word.ends_with(*glyph)) {
            word.remove_suffix(glyph->size());
            glyph = std::begin(kGlyphs);
        } else {
            ++glyph;
        }
    }
}

// Whether a word has the square of a move, or is castling.
bool looks_like_move(std::string_view word) {
    if (word.starts_with("O-O") || word.starts_with("0-0")) return true;
    for (std::size_t i = 0; i + 1 < word.size(); ++i) {
        if (word[i] >= 'a' && word[i] <= 'h' && word[i + 1] >= '1' && word[i + 1] <= '8') return true;
    }
    return false;
}

class Reading {
  public:
    Reading(std::string_view text, unsigned required_parts, const CommentSettings& settings, Game& game)
        : text_(text), required_parts_(required_parts), settings_(settings), game_(game) {}

    void read() {
        if ((!read_tags() || !set_up() || !read_moves()) && !game_.has_rest) {
            game_.entries.clear();
            return;
        }
        correct_scores();
        for (std::size_t i = 0; i < game_.entries.size(); ++i) {
            chess::Entry& entry = game_.entries[i];
            if (entry.score == chess::kNoScore) ++game_.unscored.data()[static_cast<std::size_t>(moves_[i].reason)];
            entry.result = static_cast<std::int8_t>(entry.position.side == chess::kWhite ? result_ : -result_);
        }
    }

  private:
    using Value = std::pair<std::string_view, std::size_t>;  // of a tag, and its place

    bool stop(std::size_t at, std::string fault) {
        const auto line = std::ranges::count(text_.substr(0, at), '\n') + 1;
        game_.fault = "line " + std::to_string(line) + " of the game: " + std::move(fault);
        game_.fault_at = at;
        return false;
    }

    bool read_tags() {
        while (at_ < text_.size()) {
            const LineStart start = start_of(text_, at_);
            const std::size_t end = line_end(text_, at_);
            if (start.kind == LineStart::kTag) {
                if (!read_tag(start.name, end)) return false;
            } else if (start.kind != LineStart::kEmpty) {
                return true;
            }
            at_ = std::min(end + 1, text_.size());
        }
        return true;
    }

    bool read_tag(std::string_view name, std::size_t end) {
        const std::string_view line = text_.substr(at_, end - at_);
        const std::size_t first = line.find('"') + 1;
        const std::size_t second = line.rfind('"');
        const std::size_t bracket = line.find_last_not_of(kBlanks);
        game_.begun = true;
        const bool several = second >= first && line.substr(first, second - first).find("\"]") != kNone;
        if (several || second < first || line[bracket] != ']' || line.find_first_not_of(" \t", second + 1) != bracket) {
            return stop(at_, "a tag is [Name \"value\"], not " + quoted(line));
        }
        const std::string_view value = line.substr(first, second - first);
        const std::size_t place = at_ + first;
        if (name == "FEN") return set_tag(name, {value, place}, fen_);
        if (name == "Variant") return set_tag(name, {value, place}, variant_);
        return name != "Result" || set_tag(name, {value, place}, said_);
    }

    bool set_tag(std::string_view name, Value value, Value& tag) {
        if (!tag.first.empty() && tag.first != value.first) {
            return stop(value.second,
                        "the tag " + std::string(name) + " says " + quoted(tag.first) + " and " + quoted(value.first));
        }
        tag = value;
        return true;
    }

    bool set_up() {
        bool chess960 = false;
        if (!is_chess(variant_.first, chess960)) {
            return stop(variant_.second, "a game of " + quoted(variant_.first) + ", which is other chess");
        }
        unsigned number = 0;
        const std::string_view fen = fen_.first.empty() ? kStart : fen_.first;
        const std::string wrong = chess::parse_fen(fen, 2, entry_.position, number, entry_.missing_parts);
        if (!wrong.empty()) {
            if (wrong == chess::kNotOneKingEach) game_.illegal = chess::Illegal::kKings;
            return stop(fen_.second, "the FEN: " + wrong);
        }
        const unsigned missing =
            entry_.missing_parts & required_parts_ & ~unsigned{chess::kPlyPart};  // which the number says
        if (const char* fault = chess::describe_missing_part(missing)) return stop(fen_.second, fault);
        if (const char* fault = chess::find_move_number_problem(number, required_parts_))
            return stop(fen_.second, fault);
        entry_.position.chess960 = entry_.position.chess960 || chess960;
        entry_.ply = chess::ply_of(number, entry_.position.side);
        return true;
    }

    bool read_moves() {
        while (true) {
            at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size());
            if (at_ == text_.size()) break;
            game_.begun = true;
            const char letter = text_[at_];
            if (letter == '%' && (at_ == 0 || text_[at_ - 1] == '\n')) {
                at_ = line_end(text_, at_);
            } else if (text_.substr(at_).starts_with(kByteOrderMark)) {
                at_ += kByteOrderMark.size();
            } else if (letter == '{' || letter == ';') {
                if (!read_comment(true)) return false;
            } else if (letter == '(') {
                if (!skip_variation()) return false;
            } else if (letter == '$') {
                at_ = std::min(text_.find_first_not_of("0123456789", at_ + 1), text_.size());
            } else if (!read_word()) {
                return false;
            }
        }
        if (ended_ || !game_.begun) return true;
        return stop(text_.find_last_not_of(kBlanks) + 1, "the game has no end: 1-0, 0-1, 1/2-1/2 or *");
    }

    // One in braces, or up to the end of the line. `counts`: it is not of a variation.
    bool read_comment(bool counts) {
        const bool braces = text_[at_] == '{';
        const std::size_t end = braces ? text_.find('}', at_) : line_end(text_, at_);
        if (end == kNone) return stop(at_, "a comment has no end");
        const std::string_view comment = text_.substr(at_ + 1, end - at_ - 1);
        const std::size_t begin = std::exchange(at_, end + (braces ? 1 : 0));
        if (!counts) return true;
        const Evaluation found = evaluation_in(comment, entry_.position.side, settings_.unit);
        if (found.wrong) {
            const std::string_view shown = comment.substr(comment.find("[%eval"));
            return stop(begin, "an evaluation is [%eval 0.17] in pawns or [%eval #-3], not " +
                                   quoted(shown.substr(0, std::min(shown.find(']'), shown.size() - 1) + 1)) +
                                   "; of whole numbers data.chess.pgn.unit (--pgn-unit) says what they are");
        }
        if (found.score) white_score_ = found.score;
        return game_.entries.empty() || moves_.back().is_scored || read_score(comment, begin);
    }

    // The score that the comment gives the last move; else why it has none.
    bool read_score(std::string_view comment, std::size_t begin) {
        Move& move = moves_.back();
        CommentScore found = score_in(comment, game_.entries.back().position.side, settings_);
        has_unsigned_ = has_unsigned_ || found.form == CommentScore::Form::kUnsigned;
        has_mates_not_in_plies_ = has_mates_not_in_plies_ || found.form == CommentScore::Form::kNotPlies;
        switch (found.kind) {
            case CommentScore::Kind::kDamage: return stop(begin, std::move(found.fault));
            case CommentScore::Kind::kWhitesBehind: white_score_ = found.score; break;
            case CommentScore::Kind::kNone: move.reason = std::max(move.reason, found.reason); break;
            case CommentScore::Kind::kMovers:
                game_.entries.back().score = found.score;
                move.is_scored = true;
                move.form = found.form;
                break;
        }
        return true;
    }

    // Takes scores back that other comments of the game make doubtful: who writes 8.50 for White writes -1.20 for
    // White; who counts one mate in moves counts all so.
    void correct_scores() {
        const bool by_annotator = has_unsigned_ && settings_.view != View::kMover;
        if (!by_annotator && !has_mates_not_in_plies_) return;
        std::optional<std::int16_t> before;  // White's score that the comment behind the move before gives
        for (std::size_t i = 0; i < game_.entries.size(); ++i) {
            chess::Entry& entry = game_.entries[i];
            const std::optional<std::int16_t> white = std::exchange(before, std::nullopt);
            if (by_annotator && moves_[i].form == CommentScore::Form::kSigned) {
                before = static_cast<std::int16_t>(entry.position.side == chess::kWhite ? entry.score : -entry.score);
                take_back(i, NoScore::kNoSignOrDepth);
            } else if (has_mates_not_in_plies_ && moves_[i].form == CommentScore::Form::kPlies) {
                take_back(i, NoScore::kMate);
            }
            if (settings_.view == View::kWhite && white && entry.score == chess::kNoScore) {
                (void)chess::convert_score_view(*white, entry.position.side, entry.score);
            }
        }
    }

    void take_back(std::size_t move, NoScore reason) {
        game_.entries[move].score = moves_[move].score_before;
        moves_[move].reason = reason;
    }

    bool skip_variation() {
        const std::size_t begin = at_;
        std::size_t depth = 0;
        do {
            at_ = text_.find_first_of("(){;", at_);
            if (at_ == kNone) return stop(begin, "a variation has no end");
            if (text_[at_] == '{' || text_[at_] == ';') {
                if (!read_comment(false)) return false;
                continue;
            }
            depth += text_[at_] == '(' ? 1U : ~std::size_t{0};
            ++at_;
        } while (depth != 0);
        return true;
    }

    bool read_word() {
        const std::size_t begin = at_;
        at_ = std::min(text_.find_first_of(" \t\r\n\v\f\x1A{};()$", begin + 1), text_.size());
        std::string_view word = text_.substr(begin, at_ - begin);
        if (ended_) {
            game_.has_rest = text_[begin - 1] == '\n';
            return stop(begin, "behind the result stands " + quoted(word) + ": the next game begins with tags");
        }
        if (const auto result = result_of(word)) return end_with(*result, begin);
        if (word.front() == '.' || is_digit(word.front())) {  // 12. or 12...e4
            const std::size_t digits = std::min(word.find_first_not_of("0123456789"), word.size());
            const std::size_t dots = std::min(word.find_first_not_of('.', digits), word.size());
            if (dots == word.size()) return true;
            if (dots != digits) word.remove_prefix(dots);
        }
        const std::string_view whole = word;
        remove_glyphs(word);
        if (word.empty() || word == "e.p.") return true;
        return play(word, whole, begin);
    }

    // `whole`: with its glyphs.
    bool play(std::string_view word, std::string_view whole, std::size_t begin) {
        if (game_.entries.size() == kMostMoves) return stop(begin, "a game of more than 65,535 moves");
        const chess::Position before = entry_.position;
        const SanFault fault = parse_san(word, before, entry_.move);
        if (fault == SanFault::kNoMove) return stop(begin, quoted(whole) + " is no move");
        if (fault == SanFault::kIllegal) return stop(begin, quoted(whole) + " is no legal move there");
        if (fault == SanFault::kAmbiguous) return stop(begin, quoted(whole) + " may be several moves there");
        entry_.score = chess::kNoScore;
        if (white_score_) (void)chess::convert_score_view(*white_score_, before.side, entry_.score);
        white_score_.reset();
        game_.entries.push_back(entry_);
        moves_.push_back({.score_before = entry_.score});
        (void)chess::play<chess::Variant::kChess960>(entry_.position, entry_.move);
        entry_.ply = chess::saturating_increment(entry_.ply);
        return true;
    }

    bool end_with(std::int8_t result, std::size_t begin) {
        ended_ = true;
        result_ = result;
        const auto said = result_of(said_.first);
        if (!said && result == chess::kNoResult && said_.first.find_first_not_of("?- ") != kNone) {
            return stop(said_.second, "the tag Result says " + quoted(said_.first) + ", not 1-0, 0-1, 1/2-1/2 or *");
        }
        if (!said || *said == chess::kNoResult) return true;
        if (result != chess::kNoResult && result != *said) {
            return stop(begin, "ends with " + quoted(text_.substr(begin, at_ - begin)) + ", and its tag Result says " +
                                   quoted(said_.first));
        }
        result_ = *said;
        return true;
    }

    // What the comments behind a move say.
    struct Move {
        std::int16_t score_before = chess::kNoScore;  // of its position, by the comment behind the move before
        NoScore reason = NoScore::kNoComment;
        CommentScore::Form form = CommentScore::Form::kPlain;
        bool is_scored = false;  // by its player
    };

    std::string_view text_;
    unsigned required_parts_;
    const CommentSettings& settings_;
    Game& game_;
    std::size_t at_ = 0;
    Value fen_, variant_, said_;
    chess::Entry entry_;                       // the next one
    std::optional<std::int16_t> white_score_;  // of its position
    std::vector<Move> moves_;                  // of each entry
    bool has_unsigned_ = false;
    bool has_mates_not_in_plies_ = false;
    bool ended_ = false;
    std::int8_t result_ = chess::kNoResult;  // White's
};

}  // namespace

bool is_chess(std::string_view variant, bool& chess960) {
    std::string name;
    for (const char letter : variant) {
        if (is_letter(lower(letter)) || is_digit(letter)) name += lower(letter);
    }
    constexpr std::string_view kOrthodox[] = {"",          "chess",        "standard", "normal",
                                              "classical", "fromposition", "orthodox"};
    constexpr std::string_view kFischers[] = {"chess960",          "fischerandom",       "fischerrandom",
                                              "fischerandomchess", "fischerrandomchess", "freestyle",
                                              "freestylechess"};
    chess960 = std::ranges::find(kFischers, name) != std::end(kFischers);
    return chess960 || std::ranges::find(kOrthodox, name) != std::end(kOrthodox);
}

std::size_t find_game_end(std::string_view bytes, std::size_t begin, bool last) {
    bool tags = false;
    bool moves = false;
    std::size_t at = begin;
    while (at < bytes.size()) {
        const LineStart start = start_of(bytes, at);
        if (start.kind == LineStart::kTag) {
            if (moves || (tags && start.name == "Event")) return at;
            tags = true;
        } else if (start.kind == LineStart::kOpen && moves && last && bytes[at] == '[') {
            return at;  // a tag that was cut
        } else if (start.kind == LineStart::kOther) {
            moves = true;
        }
        do {
            const std::size_t end = line_end(bytes, at);
            const std::size_t within = find_event(bytes, at, end, last);
            if (within != kNone) return within;
            at = end + 1;
        } while (moves && at < bytes.size() && bytes[at] != '[' && bytes[at] != kByteOrderMark.front());
    }
    return kNone;
}

bool begins_with_tag(std::string_view bytes) {
    for (std::size_t at = 0; at < bytes.size(); at = line_end(bytes, at) + 1) {
        const LineStart start = start_of(bytes, at);
        if (start.kind != LineStart::kEmpty) return start.kind == LineStart::kTag;
    }
    return false;
}

std::size_t count_moves(std::string_view text) {
    std::size_t moves = 0;
    std::size_t depth = 0;  // of variations
    while (!text.empty()) {
        const char letter = text.front();
        if (letter == '{' || letter == '[' || letter == ';') {  // up to the end, if there is one
            const std::size_t end = text.find(letter == '{' ? '}' : letter == '[' ? ']' : '\n');
            text.remove_prefix(std::min(end, text.size() - 1) + 1);
            continue;
        }
        if (letter == '(') ++depth;
        if (letter == ')' && depth != 0) --depth;
        const std::size_t end = std::max<std::size_t>(std::min(text.find_first_of(" \t\r\n{};()[", 0), text.size()), 1);
        if (depth == 0 && looks_like_move(text.substr(0, end))) ++moves;
        text.remove_prefix(end);
    }
    return moves;
}

void read_game(std::string_view text, unsigned required_parts, const CommentSettings& settings, Game& game) {
    game.entries.clear();
    game.fault.clear();
    game.illegal = chess::Illegal::kNone;
    game.begun = false;
    game.has_rest = false;
    game.unscored = {};
    Reading(text, required_parts, settings, game).read();
}

}  // namespace sparsepool::pgn
