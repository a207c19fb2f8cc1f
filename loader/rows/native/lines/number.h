#pragma once

#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <system_error>

// Numbers of a text, each followed by a character that no number has.
namespace sparsepool::rows {

[[nodiscard]] inline bool is_digit(char character) { return static_cast<unsigned char>(character - '0') < 10; }

// Reads the digits at `text`; a number beyond 2^64 - 1 is that. Gives back the end: `text` if there is no digit.
[[nodiscard]] inline const char* read_whole(const char* text, std::uint64_t& number) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t value = 0;
    for (; is_digit(*text); ++text) {
        const auto digit = static_cast<std::uint64_t>(*text - '0');
        value = value > (kMost - digit) / 10 ? kMost : 10 * value + digit;
    }
    number = value;
    return text;
}

// The same for a text that goes on until `limit` at least: short numbers, whose lengths nobody can foresee, without a
// branch for each digit.
[[nodiscard]] inline const char* read_whole(const char* text, const char* limit, std::uint64_t& number) {
    constexpr std::size_t kBytes = 8;
    constexpr std::uint64_t kEach = 0x0101010101010101;
    if (limit - text < static_cast<std::ptrdiff_t>(kBytes)) return read_whole(text, number);
    std::uint64_t digits = 0;
    std::memcpy(&digits, text, kBytes);
    digits ^= kEach * '0';  // a digit is now its value, from 0 to 9
    const std::uint64_t others = (((digits & kEach * 0x7F) + kEach * 0x76) | digits) & kEach * 0x80;
    if (others == 0) return read_whole(text, number);
    const auto bits = static_cast<unsigned>(std::countr_zero(others)) / 8 * 8;  // of the digits
    if (bits == 0) {
        number = 0;
        return text;
    }
    digits <<= 64 - bits;                                           // as if zeros stood before them
    digits = (digits * 10 + (digits >> 8)) & 0x00FF00FF00FF00FF;    // two digits each
    digits = (digits * 100 + (digits >> 16)) & 0x0000FFFF0000FFFF;  // four
    number = (digits * 10000 + (digits >> 32)) & 0x00000000FFFFFFFF;
    return text + bits / 8;
}

// The decimal exponent of its first digit that is not 0, for numbers that std::from_chars calls out of range: at least
// 0 for one that is too large, less for one that is too small.
[[nodiscard]] inline std::int64_t magnitude_of(const char* digits, const char* end, std::int64_t exponent) {
    std::int64_t whole = 0;  // digits before the point, from the first that is not 0 on
    std::int64_t zeros = 0;  // behind the point, before it
    bool seen = false;
    bool point = false;
    for (; digits != end && (is_digit(*digits) || *digits == '.'); ++digits) {
        if (*digits == '.') {
            point = true;
            continue;
        }
        seen = seen || *digits != '0';
        if (!point && seen) ++whole;
        if (point && !seen) ++zeros;
    }
    return exponent + (whole != 0 ? whole - 1 : -zeros - 1);
}

// The digits from `digits` to `end` by std::from_chars<float>, which rounds correctly; too large is an infinity.
[[nodiscard]] inline float read_digits(const char* digits, const char* end, std::int64_t exponent) {
    float value = 0;
    if (std::from_chars(digits, end, value).ec != std::errc::result_out_of_range) return value;
    return magnitude_of(digits, end, exponent) >= 0 ? std::numeric_limits<float>::infinity() : 0.0F;
}

// Reads a decimal number: [+-] digits [. digits] [e [+-] digits], rounded to the nearest float32, ties to even; beyond
// the range of float32 an infinity. Gives back the end, or null if there is none.
[[nodiscard]] inline const char* read_float(const char* text, float& number) {
    // Exact in double, as are its products and quotients with a whole number below 2^53, but for one rounding.
    static constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                         1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    constexpr std::int64_t kLargestPower = 22;
    constexpr std::int64_t kAbsurd = 1'000'000'000;  // no text has so many digits that they outweigh it
    const bool negative = *text == '-';
    if (negative || *text == '+') ++text;
    const char* const digits = text;
    std::uint64_t whole = 0;  // of all digits; wraps around if there are too many, and is not used then
    for (; is_digit(*text); ++text) whole = 10 * whole + static_cast<std::uint64_t>(*text - '0');
    std::int64_t count = text - digits;
    std::int64_t exponent = 0;
    if (*text == '.') {
        const char* const fraction = ++text;
        for (; is_digit(*text); ++text) whole = 10 * whole + static_cast<std::uint64_t>(*text - '0');
        exponent = fraction - text;
        count -= exponent;
    }
    if (count == 0) return nullptr;
    std::int64_t written = 0;
    if (*text == 'e' || *text == 'E') {
        ++text;
        const bool small = *text == '-';
        if (small || *text == '+') ++text;
        if (!is_digit(*text)) return nullptr;
        for (; is_digit(*text); ++text) written = written < kAbsurd ? 10 * written + (*text - '0') : kAbsurd;
        if (small) written = -written;
        exponent += written;
    }
    if (count <= 19 && whole < std::uint64_t{1} << 53 && exponent >= -kLargestPower && exponent <= kLargestPower) {
        const auto exact = static_cast<double>(whole);
        const double value = exponent < 0 ? exact / kPowers[-exponent] : exact * kPowers[exponent];
        // Rounded twice, but to the same: rounding to double keeps the order of numbers, so that only a double which
        // lies in the middle between two floats may stand for one at either side.
        constexpr std::uint64_t kBelow = (std::uint64_t{1} << 29) - 1;  // bits of a double that a float lacks
        if ((std::bit_cast<std::uint64_t>(value) & kBelow) != (kBelow + 1) / 2) {
            number = static_cast<float>(negative ? -value : value);
            return text;
        }
    }
    const float value = read_digits(digits, text, written);
    number = negative ? -value : value;
    return text;
}

}  // namespace sparsepool::rows
