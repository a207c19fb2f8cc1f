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

[[nodiscard]] inline unsigned count_squares(Bitboard squares) {
#if defined(__POPCNT__)
    return static_cast<unsigned>(__builtin_popcountll(squares));
#else
    squares -= (squares >> 1) & 0x5555555555555555;
    squares = (squares & 0x3333333333333333) + ((squares >> 2) & 0x3333333333333333);
    squares = (squares + (squares >> 4)) & 0x0F0F0F0F0F0F0F0F;
    return static_cast<unsigned>((squares * 0x0101010101010101) >> 56);
#endif
}

// The square of number `index` in ascending order; index must be below the count.
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

// How many of `squares` come before `square`: the rank of a square in ascending order.
[[nodiscard]] inline unsigned squares_before(Bitboard squares, unsigned square) {
    return count_squares(squares & (bit_of(square) - 1));
}

// The bits of `value` under `mask`, moved together to the low end.
[[nodiscard]] inline std::uint64_t extract_bits(std::uint64_t value, std::uint64_t mask) {
#if defined(__BMI2__)
    return _pext_u64(value, mask);
#else
    std::uint64_t bits = 0;
    for (std::uint64_t place = 1; mask != 0; mask &= mask - 1, place += place) {
        if ((value & mask & (~mask + 1)) != 0) bits |= place;
    }
    return bits;
#endif
}

// The reverse: the low bits of `bits` spread to the places of `mask`.
[[nodiscard]] inline std::uint64_t deposit_bits(std::uint64_t bits, std::uint64_t mask) {
#if defined(__BMI2__)
    return _pdep_u64(bits, mask);
#else
    std::uint64_t value = 0;
    for (; mask != 0; mask &= mask - 1, bits >>= 1) {
        if ((bits & 1) != 0) value |= mask & (~mask + 1);
    }
    return value;
#endif
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
