#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace sparsepool {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// The number of bytes before the first that is not UTF-8; the text's size if all are. As RFC 3629 says: no character in
// a longer form than needed, no surrogates, none beyond U+10FFFF. Eight ASCII characters are checked at once.
[[nodiscard]] inline std::size_t utf8_prefix(std::string_view text) {
    const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
    const std::size_t size = text.size();
    std::size_t i = 0;
    while (i < size) {
        std::uint64_t word = 0;
        if (size - i >= sizeof word) {
            std::memcpy(&word, text.data() + i, sizeof word);
            if ((word & 0x8080808080808080U) == 0) {
                i += sizeof word;
                continue;
            }
        }
        const std::uint8_t lead = at(i);
        if (lead < 0x80) {
            ++i;
            continue;
        }
        // A lead byte C2 .. F4 and one to three bytes 80 .. BF; after some leads the second byte has a smaller range.
        std::size_t num_following = 1;
        if (lead >= 0xE0) num_following = 2;
        if (lead >= 0xF0) num_following = 3;
        if (lead < 0xC2 || lead > 0xF4 || size - i <= num_following) return i;
        std::uint8_t min_second = 0x80;
        std::uint8_t max_second = 0xBF;
        if (lead == 0xE0) min_second = 0xA0;
        if (lead == 0xED) max_second = 0x9F;
        if (lead == 0xF0) min_second = 0x90;
        if (lead == 0xF4) max_second = 0x8F;
        const std::uint8_t second = at(i + 1);
        if (second < min_second || second > max_second) return i;
        for (std::size_t k = 2; k <= num_following; ++k) {
            if ((at(i + k) & 0xC0) != 0x80) return i;
        }
        i += num_following + 1;
    }
    return size;
}

// The character of a text that begins at `at`: all its bytes, or one byte that is not UTF-8.
[[nodiscard]] std::string_view letter_at(std::string_view text, std::size_t at);

// A text for a message: control characters and bytes that are not UTF-8 are written as \x0a.
[[nodiscard]] std::string shown(std::string_view text);

}  // namespace sparsepool
