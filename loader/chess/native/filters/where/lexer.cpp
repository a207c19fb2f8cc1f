#include "chess/native/filters/where/lexer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace sparsepool::chess::where {
namespace {

// Longer ones first.
constexpr std::array<std::string_view, 13> kSymbols = {"<=", ">=", "==", "!=", "<", ">", "+",
                                                       "-",  "*",  "/",  "(",  ")", ","};

// What other languages write.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kOthers = {{
    {"&", "and"},
    {"|", "or"},
    {"!", "not, or !="},
    {"=", "=="},
    {"<>", "!="},
    {"%", "+, -, * or /: there is no remainder"},
}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class Lexer {
  public:
    explicit Lexer(std::string_view text) : text_(text) {}

    Token next() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
        Token token;
        token.column = at_ + 1;
        if (at_ == text_.size()) return token;
        if (is_digit(text_[at_]) || text_[at_] == '.') return number(token);
        if (begins_word(text_[at_])) {
            std::size_t end = at_;
            while (end < text_.size() && (begins_word(text_[end]) || is_digit(text_[end]))) ++end;
            return taken(token, Token::Kind::kWord, end - at_);
        }
        if (rest().starts_with("<>")) unknown(token.column);
        for (const std::string_view symbol : kSymbols) {
            if (rest().starts_with(symbol)) return taken(token, Token::Kind::kSymbol, symbol.size());
        }
        unknown(token.column);
    }

  private:
    [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }

    Token taken(Token token, Token::Kind kind, std::size_t size) {
        token.kind = kind;
        token.text = rest().substr(0, size);
        at_ += size;
        return token;
    }

    Token number(Token token) {
        const char* begin = text_.data() + at_;
        const char* end = text_.data() + text_.size();
        const auto [stop, error] = std::from_chars(begin, end, token.number);
        const auto size = static_cast<std::size_t>(stop - begin);
        if (error != std::errc() || !std::isfinite(token.number) || (stop != end && begins_word(*stop))) {
            throw Fault(token.column, std::string("'").append(rest().substr(0, size + 1)).append("' is no number"));
        }
        return taken(token, Token::Kind::kNumber, size);
    }

    [[noreturn]] void unknown(std::size_t column) const {
        for (const auto& [other, ours] : kOthers) {
            if (rest().starts_with(other) && (other != "=" || !rest().starts_with("=="))) {
                throw Fault(column, std::string("instead of ").append(other).append(" write ").append(ours));
            }
        }
        const auto byte = static_cast<unsigned char>(text_[at_]);
        const std::string shown = byte >= 32 && byte < 127 ? std::string(1, text_[at_]) : "this character";
        throw Fault(column, shown + " has no meaning here");
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view text) {
    Lexer lexer(text);
    std::vector<Token> tokens;
    do {
        tokens.push_back(lexer.next());
    } while (tokens.back().kind != Token::Kind::kEnd);
    return tokens;
}

}  // namespace sparsepool::chess::where
