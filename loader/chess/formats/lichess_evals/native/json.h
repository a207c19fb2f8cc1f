#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>

// JSON (RFC 8259) read as it stands, from the front; nothing is kept of it.
namespace sparsepool::lichess_evals {

class Json {
  public:
    explicit Json(std::string_view text) : all_(text), text_(text) {}

    // Whether everything until now was JSON. All below do nothing once it was not.
    [[nodiscard]] bool good() const { return good_; }
    [[nodiscard]] std::size_t offset() const { return all_.size() - text_.size(); }

    // Calls `take(name)` for each member of an object, or `take()` for each value of an array: it reads that value.
    template <class Take>
    void object(Take take) {
        list('{', '}', [&] {
            const std::string_view name = string();
            expect(':');
            if (good_) take(name);
        });
    }
    template <class Take>
    void array(Take take) {
        list('[', ']', take);
    }

    // A string as it is written, without its quotes: what is escaped stays so.
    [[nodiscard]] std::string_view string() {
        expect('"');
        std::size_t end = 0;
        while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
        if (end >= text_.size()) good_ = false;
        if (!good_) return {};
        const std::string_view found = text_.substr(0, end);
        text_.remove_prefix(end + 1);
        return found;
    }

    // A whole number.
    [[nodiscard]] std::int64_t number() {
        skip_blanks();
        std::int64_t number = 0;
        const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), number);
        const auto size = static_cast<std::size_t>(end - text_.data());
        good_ = good_ && error == std::errc{} && (size == text_.size() || kOfNumbers.find(text_[size]) == kNone);
        if (good_) text_.remove_prefix(size);
        return good_ ? number : 0;
    }

    // True, and read, if a null is next.
    [[nodiscard]] bool null() {
        skip_blanks();
        const bool is_null = good_ && text_.starts_with("null");
        if (is_null) text_.remove_prefix(4);
        return is_null;
    }

    // Any value.
    void skip() { skip(0); }

    // Nothing but blanks may follow.
    void end() {
        skip_blanks();
        good_ = good_ && text_.empty();
    }

  private:
    static constexpr std::size_t kNone = std::string_view::npos;
    static constexpr std::string_view kOfNumbers = "+-.0123456789eE";
    static constexpr unsigned kDeepest = 100;  // values within one another

    void skip_blanks() { text_.remove_prefix(std::min(text_.find_first_not_of(" \t\r\n"), text_.size())); }

    [[nodiscard]] bool take(char letter) {
        skip_blanks();
        if (!good_ || !text_.starts_with(letter)) return false;
        text_.remove_prefix(1);
        return true;
    }

    void expect(char letter) { good_ = take(letter) && good_; }

    template <class Take>
    void list(char begin, char end, Take one) {
        expect(begin);
        if (!good_ || take(end)) return;
        do {
            one();
        } while (take(','));
        expect(end);
    }

    void skip(unsigned depth) {
        skip_blanks();
        good_ = good_ && !text_.empty() && depth < kDeepest;
        if (!good_) return;
        switch (text_.front()) {
            case '{': return object([&](std::string_view) { skip(depth + 1); });
            case '[': return array([&] { skip(depth + 1); });
            case '"': return (void)string();
            default: break;
        }
        for (const std::string_view word : {"true", "false", "null"}) {
            if (text_.starts_with(word)) return text_.remove_prefix(word.size());
        }
        const std::size_t size = std::min(text_.find_first_not_of(kOfNumbers), text_.size());
        good_ = size != 0;
        text_.remove_prefix(size);
    }

    std::string_view all_;
    std::string_view text_;  // what is left of it
    bool good_ = true;
};

}  // namespace sparsepool::lichess_evals
