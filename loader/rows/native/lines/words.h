#pragma once

#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>

// What a message says of a text.
namespace sparsepool::rows {

constexpr std::size_t kMostQuoted = 24;  // bytes of a text

// 'abc': printable ASCII as it stands, other bytes as \x0a; of a longer text the beginning.
[[nodiscard]] inline std::string quoted(std::string_view text) {
    constexpr char kHex[] = "0123456789abcdef";
    std::string words = "'";
    for (const char character : text.substr(0, kMostQuoted)) {
        const auto byte = static_cast<unsigned char>(character);
        if (byte >= 0x20 && byte < 0x7F && byte != '\'' && byte != '\\') {
            words += character;
        } else {
            words += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
        }
    }
    return words + (text.size() <= kMostQuoted ? "'" : "...'");
}

// Words and numbers, one behind the other.
template <class... Words>
[[nodiscard]] std::string joined(const Words&... words) {
    std::ostringstream line;
    (line << ... << words);
    return line.str();
}

}  // namespace sparsepool::rows
