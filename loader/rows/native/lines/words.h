#pragma once

#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>

// Texts for messages.
namespace sparsepool::rows {

constexpr std::size_t kMaxQuoted = 24;  // bytes

// The text in quotes, 'abc': printable ASCII as it is, other bytes as \x0a. A longer text is cut.
[[nodiscard]] inline std::string quoted(std::string_view text) {
    constexpr char kHex[] = "0123456789abcdef";
    std::string quoted_text = "'";
    for (const char character : text.substr(0, kMaxQuoted)) {
        const auto byte = static_cast<unsigned char>(character);
        if (byte >= 0x20 && byte < 0x7F && byte != '\'' && byte != '\\') {
            quoted_text += character;
        } else {
            quoted_text += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
        }
    }
    return quoted_text + (text.size() <= kMaxQuoted ? "'" : "...'");
}

// Texts and numbers, one after another.
template <class... Parts>
[[nodiscard]] std::string joined(const Parts&... parts) {
    std::ostringstream line;
    (line << ... << parts);
    return line.str();
}

}  // namespace sparsepool::rows
