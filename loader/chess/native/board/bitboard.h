#pragma once

#include <cstdint>

#include "common/isa.h"

#if defined(__BMI2__)
#include <immintrin.h>
#endif

namespace sparsepool::chess {

using Bitboard = std::uint64_t;  // bit a1 = 0 ... h8 = 63

inline namespace SPARSEPOOL_ISA {

[[nodiscard]] constexpr Bitboard bit_of(unsigned square) { return Bitboard{1} << square; }

[[nodiscard]] inline unsigned first_square(Bitboard squares) {  // squares must not be empty
    return static_cast<unsigned>(__builtin_ctzll(squares));
}

[[nodiscard]] inline unsigned last_square(Bitboard squares) {  // squares must not be empty
    return 63U - static_cast<unsigned>(__builtin_clzll(squares));
}

[[nodiscard]] inline unsigned count_squares(Bitboard squares) {
#if defined(__POPCNT__)
    return static_cast<unsigned>(__builtin_popcountll(squares));
#else
    // Sums of 2, 4 and 8 neighbouring bits, then of all bytes: Hacker's Delight, figure 5-2.
    squares -= (squares >> 1) & 0x5555555555555555;
    squares = (squares & 0x3333333333333333) + ((squares >> 2) & 0x3333333333333333);
    squares = (squares + (squares >> 4)) & 0x0F0F0F0F0F0F0F0F;
    return static_cast<unsigned>((squares * 0x0101010101010101) >> 56);
#endif
}

// Returns the square of this index in ascending order, counted from 0. `index` must be below the number of squares.
[[nodiscard]] inline unsigned nth_square(Bitboard squares, unsigned index) {
#if defined(__BMI2__)
    return first_square(_pdep_u64(Bitboard{1} << index, squares));
#else
    for (; index != 0; --index) {
        squares &= squares - 1;
    }
    return first_square(squares);
#endif
}

// Returns how many of `squares` are below `square`: its index in ascending order.
[[nodiscard]] inline unsigned squares_before(Bitboard squares, unsigned square) {
    return count_squares(squares & (bit_of(square) - 1));
}

// Returns the bits of `value` under `mask`, packed into the low bits (pext).
[[nodiscard]] inline std::uint64_t extract_bits(std::uint64_t value, std::uint64_t mask) {
#if defined(__BMI2__)
    return _pext_u64(value, mask);
#else
    std::uint64_t bits = 0;
    std::uint64_t next_bit = 1;
    while (mask != 0) {
        const std::uint64_t lowest = mask & (~mask + 1);
        if ((value & lowest) != 0) bits |= next_bit;
        mask ^= lowest;
        next_bit <<= 1;
    }
    return bits;
#endif
}

// Returns the low bits of `bits`, spread to the positions of the bits of `mask` (pdep).
[[nodiscard]] inline std::uint64_t deposit_bits(std::uint64_t bits, std::uint64_t mask) {
#if defined(__BMI2__)
    return _pdep_u64(bits, mask);
#else
    std::uint64_t value = 0;
    while (mask != 0) {
        const std::uint64_t lowest = mask & (~mask + 1);
        if ((bits & 1) != 0) value |= lowest;
        mask ^= lowest;
        bits >>= 1;
    }
    return value;
#endif
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
