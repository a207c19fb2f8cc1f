#pragma once

#include <cstdint>

#if defined(__BMI2__)
#include <immintrin.h>
#endif

// Hot code lives in headers and is compiled once per instruction set. Each build of it has a namespace of
// its own, so that the linker can never mix them: a file built for a wider set defines SPARSEPOOL_ISA.
#ifndef SPARSEPOOL_ISA
#define SPARSEPOOL_ISA baseline
#endif

namespace sparsepool::chess {

using Bitboard = std::uint64_t;  // bit a1 = 0 ... h8 = 63

// Up to 32 piece codes of 4 bits in ascending square order, the lowest square in the low bits.
__extension__ using Nibbles = unsigned __int128;

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

[[nodiscard]] inline unsigned nibble_at(Nibbles nibbles, unsigned index) {
    return static_cast<unsigned>(nibbles >> (4 * index)) & 15;
}

[[nodiscard]] inline Nibbles without_nibble(Nibbles nibbles, unsigned index) {
    const Nibbles below = (Nibbles{1} << (4 * index)) - 1;
    return (nibbles & below) | ((nibbles >> 4) & ~below);
}

// The last nibble falls off if there are 32 already; index is at most 31.
[[nodiscard]] inline Nibbles with_nibble(Nibbles nibbles, unsigned index, unsigned code) {
    const Nibbles below = (Nibbles{1} << (4 * index)) - 1;
    return (nibbles & below) | ((nibbles & ~below) << 4) | (Nibbles{code} << (4 * index));
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
