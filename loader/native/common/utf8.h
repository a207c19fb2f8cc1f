#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace sparsepool {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Bytes of `text` before the first that is no UTF-8 (RFC 3629: none in a longer form than needed, no surrogates, none
// beyond U+10FFFF); its size if all are.
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
        const std::size_t more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
        if (lead < 0xC2 || lead > 0xF4 || size - i <= more) return i;
        const std::uint8_t second = at(i + 1);
        const std::uint8_t least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
        const std::uint8_t most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
        if (second < least || second > most) return i;
        for (std::size_t k = 2; k <= more; ++k) {
            if ((at(i + k) & 0xC0) != 0x80) return i;
        }
        i += more + 1;
    }
    return size;
}

// The letter of a text that begins at `at`: all its bytes, or the one that is no UTF-8.
[[nodiscard]] std::string_view letter_at(std::string_view text, std::size_t at);

// UTF-8 for a message: control characters and bytes that are no UTF-8 as \x0a.
[[nodiscard]] std::string shown(std::string_view text);

}  // namespace sparsepool
