#pragma once

#include <cstdint>

#include "chess/native/board/rules.h"
#include "chess/native/formats/record_walk.h"

// A board of bulletformat, marlinformat and viriformat: occupied squares, then a nibble each, ascending, the low nibble
// of a byte first: type, or 8 + type.
namespace sparsepool::chess {

inline constexpr unsigned kUnmovedRook = 6;  // a type: a rook that may still castle

inline namespace SPARSEPOOL_ISA {

// Reads 24 bytes. The planes have nibbles as they are, the upper bit as colour: types 6 and 7 are left to the caller,
// and kings. Null if nothing is wrong.
[[nodiscard]] inline const char* read_nibbles(const std::uint8_t* bytes, Position& position) {
    const auto occupied = load<std::uint64_t>(bytes);
    const unsigned count = count_squares(occupied);
    if (count > 32) return "more than 32 pieces";
    const std::uint64_t packed[2] = {load<std::uint64_t>(bytes + 8), load<std::uint64_t>(bytes + 16)};
    const std::uint64_t low_rest = count >= 16 ? 0 : packed[0] >> (4 * count);
    const std::uint64_t high_rest = count <= 16 ? packed[1] : count == 32 ? 0 : packed[1] >> (4 * (count - 16));
    if ((low_rest | high_rest) != 0) return "a piece behind those of the occupied squares";
    position = Position{};
    position.occupied = occupied;
    for (unsigned i = 0; i < 4; ++i) {
        const std::uint64_t every_fourth = std::uint64_t{0x1111111111111111} << i;
        const std::uint64_t bits = extract_bits(packed[0], every_fourth) | extract_bits(packed[1], every_fourth) << 16;
        position.planes[(i + 1) % 4] = deposit_bits(bits, occupied);
    }
    return nullptr;
}

[[nodiscard]] inline Bitboard special_pieces(const Position& position) {
    return position.planes[2] & position.planes[3];
}

// The nibbles of a board, 24 bytes. `unmoved`: rooks that may still castle.
inline void write_nibbles(const Position& position, Bitboard unmoved, std::uint8_t* out) {
    std::memcpy(out, &position.occupied, 8);
    std::memset(out + 8, 0, 16);
    unsigned index = 0;
    for (Bitboard rest = position.occupied; rest != 0; rest &= rest - 1, ++index) {
        const unsigned square = first_square(rest);
        const unsigned type = (unmoved >> square & 1) != 0 ? kUnmovedRook : position.type_at(square);
        const unsigned nibble = type | static_cast<unsigned>(position.planes[0] >> square & 1) << 3;
        out[8 + index / 2] = static_cast<std::uint8_t>(out[8 + index / 2] | nibble << (4 * (index % 2)));
    }
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
