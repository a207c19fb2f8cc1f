#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>

// A pull parser of JSON (RFC 8259), which reads a text from the front and builds nothing.
namespace sparsepool::lichess_evals {

class Json {
  public:
    explicit Json(std::string_view text) : text_(text) {}

    // Whether everything so far was JSON. Once it was not, all functions below do nothing.
    [[nodiscard]] bool good() const { return good_; }
    [[nodiscard]] std::size_t offset() const { return offset_; }

    // Reads an object: calls `read_member(name)` for each member, which must read its value.
    template <class ReadMember>
    void read_object(ReadMember read_member) {
        read_list('{', '}', [&] {
            const std::string_view name = read_string();
            expect(':');
            if (good_) read_member(name);
        });
    }

    // Reads an array: calls `read_item()` for each item, which must read it.
    template <class ReadItem>
    void read_array(ReadItem read_item) {
        read_list('[', ']', read_item);
    }

    // Reads a string and returns it without its quotes. Escapes are left as they are.
    [[nodiscard]] std::string_view read_string() {
        expect('"');
        const std::string_view text = remaining();
        std::size_t end = 0;
        while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
        if (end >= text.size()) good_ = false;
        if (!good_) return {};
        offset_ += end + 1;
        return text.substr(0, end);
    }

    // Reads a whole number.
    [[nodiscard]] std::int64_t read_integer() {
        skip_blanks();
        const std::string_view text = remaining();
        std::int64_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        const auto size = static_cast<std::size_t>(end - text.data());
        const bool is_complete = size == text.size() || kNumberCharacters.find(text[size]) == std::string_view::npos;
        good_ = good_ && error == std::errc{} && is_complete;
        if (!good_) return 0;
        offset_ += size;
        return number;
    }

    // Reads a null if there is one, and returns whether there was.
    [[nodiscard]] bool read_null() {
        skip_blanks();
        const bool is_null = good_ && remaining().starts_with("null");
        if (is_null) offset_ += 4;
        return is_null;
    }

    // Reads and ignores any value.
    void skip_value() { skip_value(0); }

    // Expects the end of the text.
    void expect_end() {
        skip_blanks();
        good_ = good_ && offset_ == text_.size();
    }

  private:
    static constexpr std::string_view kNumberCharacters = "+-.0123456789eE";
    static constexpr unsigned kMaxDepth = 100;  // of values in values

    [[nodiscard]] std::string_view remaining() const { return text_.substr(offset_); }

    void skip_blanks() { offset_ = std::min(text_.find_first_not_of(" \t\r\n", offset_), text_.size()); }

    // Reads this character if it comes next, and returns whether it did.
    [[nodiscard]] bool accept(char letter) {
        skip_blanks();
        if (!good_ || !remaining().starts_with(letter)) return false;
        ++offset_;
        return true;
    }

    void expect(char letter) {
        if (!accept(letter)) good_ = false;
    }

    template <class ReadItem>
    void read_list(char begin, char end, ReadItem read_item) {
        expect(begin);
        if (!good_ || accept(end)) return;
        do {
            read_item();
        } while (accept(','));
        expect(end);
    }

    void skip_value(unsigned depth) {
        skip_blanks();
        good_ = good_ && offset_ < text_.size() && depth < kMaxDepth;
        if (!good_) return;
        switch (text_[offset_]) {
            case '{': return read_object([&](std::string_view) { skip_value(depth + 1); });
            case '[': return read_array([&] { skip_value(depth + 1); });
            case '"': return (void)read_string();
            default: return skip_word_or_number();
        }
    }

    void skip_word_or_number() {
        const std::string_view text = remaining();
        for (const std::string_view word : {"true", "false", "null"}) {
            if (!text.starts_with(word)) continue;
            offset_ += word.size();
            return;
        }
        const std::size_t size = std::min(text.find_first_not_of(kNumberCharacters), text.size());
        good_ = size != 0;
        offset_ += size;
    }

    std::string_view text_;
    std::size_t offset_ = 0;
    bool good_ = true;
};

}  // namespace sparsepool::lichess_evals
