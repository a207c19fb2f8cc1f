#include "common/utf8.h"

namespace sparsepool {

std::string_view letter_at(std::string_view text, std::size_t at) {
    std::size_t size = 1;
    while (size < 4 && at + size < text.size() && (static_cast<std::uint8_t>(text[at + size]) & 0xC0) == 0x80) ++size;
    const std::string_view letter = text.substr(at, size);
    return utf8_prefix(letter) == size ? letter : letter.substr(0, 1);
}

std::string shown(std::string_view text) {
    constexpr char kHex[] = "0123456789abcdef";
    std::string escaped;
    for (std::size_t i = 0; i < text.size();) {
        const std::string_view letter = letter_at(text, i);
        const auto byte = static_cast<std::uint8_t>(letter.front());
        i += letter.size();
        const bool is_control = byte < 0x20 || byte == 0x7F;
        const bool is_invalid = byte >= 0x80 && letter.size() == 1;
        if (is_control || is_invalid) {
            escaped += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
        } else {
            escaped += letter;
        }
    }
    return escaped;
}

}  // namespace sparsepool
