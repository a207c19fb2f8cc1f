#include "common/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace sparsepool {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // reflected

// What each value of a byte contributes: the remainder of its division by the polynomial.
constexpr std::array<std::uint32_t, 256> make_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t remainder = byte;
        for (int bit = 0; bit < 8; ++bit) {
            const bool is_odd = (remainder & 1) != 0;
            remainder = (remainder >> 1) ^ (is_odd ? kPolynomial : 0U);
        }
        table[byte] = remainder;
    }
    return table;
}

constexpr std::array<std::uint32_t, 256> kTable = make_table();

std::uint32_t update_by_table(const std::uint8_t* data, std::size_t size, std::uint32_t sum) {
    for (std::size_t i = 0; i < size; ++i) sum = (sum >> 8) ^ kTable[(sum ^ data[i]) & 0xFF];
    return sum;
}

#if defined(__x86_64__)
// One instruction for eight bytes, about 9 GB/s: as fast as the memory that is summed up.
__attribute__((target("sse4.2"))) std::uint32_t update_by_instruction(const std::uint8_t* data, std::size_t size,
                                                                      std::uint32_t sum) {
    std::uint64_t wide = sum;
    std::size_t done = 0;
    for (; done + 8 <= size; done += 8) {
        std::uint64_t word;
        std::memcpy(&word, data + done, 8);
        wide = _mm_crc32_u64(wide, word);
    }
    return update_by_table(data + done, size - done, static_cast<std::uint32_t>(wide));
}
#endif

}  // namespace

std::uint32_t crc32c(const std::uint8_t* data, std::size_t size, std::uint32_t before) {
#if defined(__x86_64__)
    static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
    if (has_instruction) return ~update_by_instruction(data, size, ~before);
#endif
    return ~update_by_table(data, size, ~before);
}

}  // namespace sparsepool
