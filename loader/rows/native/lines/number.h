#pragma once

#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <system_error>

// Parses numbers in a text. A character that no number has must follow each of them.
namespace sparsepool::rows {

[[nodiscard]] inline bool is_digit(char character) { return static_cast<unsigned char>(character - '0') < 10; }

// Parses the digits at `text`. A number beyond 2^64 - 1 becomes 2^64 - 1. Returns the end, which is `text` if there is
// no digit.
[[nodiscard]] inline const char* parse_integer(const char* text, std::uint64_t& number) {
    constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t value = 0;
    for (; is_digit(*text); ++text) {
        const auto digit = static_cast<std::uint64_t>(*text - '0');
        value = value > (kMax - digit) / 10 ? kMax : 10 * value + digit;
    }
    number = value;
    return text;
}

// The same without a branch for each digit, for short numbers of unpredictable lengths: eight characters are loaded at
// once, the first in the lowest byte. The text reaches until `limit` at least.
[[nodiscard]] inline const char* parse_integer(const char* text, const char* limit, std::uint64_t& number) {
    constexpr std::size_t kBytes = 8;
    constexpr std::uint64_t kEach = 0x0101010101010101;  // times a byte: that byte eight times
    if (limit - text < static_cast<std::ptrdiff_t>(kBytes)) return parse_integer(text, number);
    std::uint64_t digits = 0;
    std::memcpy(&digits, text, kBytes);
    digits ^= kEach * '0';  // a digit becomes its value, from 0 to 9
    // The top bit of each byte that is no digit: adding 0x76 to a byte above 9 sets it, or the byte has it already.
    const std::uint64_t non_digits = (((digits & kEach * 0x7F) + kEach * 0x76) | digits) & kEach * 0x80;
    if (non_digits == 0) return parse_integer(text, number);                            // eight digits or more
    const auto num_bits = static_cast<unsigned>(std::countr_zero(non_digits)) / 8 * 8;  // of the digits
    if (num_bits == 0) {
        number = 0;
        return text;
    }
    digits <<= 64 - num_bits;                                         // as if zeros stood before the digits
    digits = (digits * 10 + (digits >> 8)) & 0x00FF00FF00FF00FF;      // four numbers of two digits
    digits = (digits * 100 + (digits >> 16)) & 0x0000FFFF0000FFFF;    // two numbers of four digits
    number = (digits * 10000 + (digits >> 32)) & 0x00000000FFFFFFFF;  // one number of eight digits
    return text + num_bits / 8;
}

// The power of ten of a number's first digit that is not 0. For numbers that std::from_chars calls out of range: 0 or
// more for one that is too large, less than 0 for one that is too small.
[[nodiscard]] inline std::int64_t decimal_magnitude(const char* digits, const char* end, std::int64_t exponent) {
    std::int64_t integer_digits = 0;  // before the point, from the first that is not 0 on
    std::int64_t leading_zeros = 0;   // after the point, before the first digit that is not 0
    bool has_nonzero = false;
    bool has_point = false;
    for (; digits != end && (is_digit(*digits) || *digits == '.'); ++digits) {
        if (*digits == '.') {
            has_point = true;
            continue;
        }
        if (*digits != '0') has_nonzero = true;
        if (!has_point && has_nonzero) ++integer_digits;
        if (has_point && !has_nonzero) ++leading_zeros;
    }
    return exponent + (integer_digits != 0 ? integer_digits - 1 : -leading_zeros - 1);
}

// Parses the number from `digits` to `end` by std::from_chars<float>, which rounds correctly. Beyond the range of
// float32 the result is an infinity, or 0.
[[nodiscard]] inline float parse_digits(const char* digits, const char* end, std::int64_t exponent) {
    float value = 0;
    if (std::from_chars(digits, end, value).ec != std::errc::result_out_of_range) return value;
    return decimal_magnitude(digits, end, exponent) >= 0 ? std::numeric_limits<float>::infinity() : 0.0F;
}

// Parses a decimal number: [+-] digits [. digits] [e [+-] digits]. It is rounded to the nearest float32, ties to even;
// beyond the range of float32 it becomes an infinity. Returns the end, or null if there is no number.
[[nodiscard]] inline const char* parse_float(const char* text, float& number) {
    // These powers are exact in double. A product or quotient with an integer below 2^53 rounds once.
    static constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                         1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    constexpr std::int64_t kMaxPower = 22;
    constexpr std::int64_t kMaxExponent = 1'000'000'000;  // no text has so many digits that they could undo it
    const bool is_negative = *text == '-';
    if (is_negative || *text == '+') ++text;
    const char* const digits = text;
    std::uint64_t mantissa = 0;  // all digits as an integer; wraps around if there are too many, and is not used then
    for (; is_digit(*text); ++text) mantissa = 10 * mantissa + static_cast<std::uint64_t>(*text - '0');
    std::int64_t num_digits = text - digits;
    std::int64_t exponent = 0;  // the number is mantissa * 10^exponent
    if (*text == '.') {
        ++text;
        const char* const fraction = text;
        for (; is_digit(*text); ++text) mantissa = 10 * mantissa + static_cast<std::uint64_t>(*text - '0');
        exponent = fraction - text;
        num_digits -= exponent;
    }
    if (num_digits == 0) return nullptr;
    std::int64_t written_exponent = 0;
    if (*text == 'e' || *text == 'E') {
        ++text;
        const bool is_exponent_negative = *text == '-';
        if (is_exponent_negative || *text == '+') ++text;
        if (!is_digit(*text)) return nullptr;
        for (; is_digit(*text); ++text) {
            written_exponent = written_exponent < kMaxExponent ? 10 * written_exponent + (*text - '0') : kMaxExponent;
        }
        if (is_exponent_negative) written_exponent = -written_exponent;
        exponent += written_exponent;
    }
    const bool is_mantissa_exact = num_digits <= 19 && mantissa < std::uint64_t{1} << 53;
    if (is_mantissa_exact && exponent >= -kMaxPower && exponent <= kMaxPower) {
        const auto exact = static_cast<double>(mantissa);
        const double value = exponent < 0 ? exact / kPowers[-exponent] : exact * kPowers[exponent];
        // Rounding to double and then to float gives the nearest float, except where the double lies exactly in the
        // middle between two floats: then the digits may lie at either side.
        constexpr std::uint64_t kDroppedBits = (std::uint64_t{1} << 29) - 1;  // bits of a double that a float lacks
        const bool is_midpoint = (std::bit_cast<std::uint64_t>(value) & kDroppedBits) == (kDroppedBits + 1) / 2;
        if (!is_midpoint) {
            number = static_cast<float>(is_negative ? -value : value);
            return text;
        }
    }
    const float value = parse_digits(digits, text, written_exponent);
    number = is_negative ? -value : value;
    return text;
}

}  // namespace sparsepool::rows
