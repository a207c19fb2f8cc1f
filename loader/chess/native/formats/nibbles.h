#pragma once

#include <cstdint>

#include "chess/native/board/rules.h"
#include "chess/native/formats/record_walk.h"

// The board of bulletformat, marlinformat and viriformat, 24 bytes:
//
//     0  u64 occupied squares     8  a nibble for each occupied square, ascending, the low nibble of a byte first:
//                                    the type in three bits, and bit 3 for black
namespace sparsepool::chess {

inline constexpr unsigned kUnmovedRook = 6;  // a type: a rook that may still castle

inline namespace SPARSEPOOL_ISA {

// Whether nibbles beyond the first `count` are not zero. `packed` has 32 of them.
[[nodiscard]] inline bool has_extra_nibbles(const std::uint64_t (&packed)[2], unsigned count) {
    const unsigned used_of_second = count > 16 ? count - 16 : 0;
    const std::uint64_t extra_in_first = count >= 16 ? 0 : packed[0] >> (4 * count);
    const std::uint64_t extra_in_second = count == 32 ? 0 : packed[1] >> (4 * used_of_second);
    return (extra_in_first | extra_in_second) != 0;
}

// Reads a board of 24 bytes into `position`, with the types as they are: types 6 and 7 and the number of kings are
// checked by the caller. Returns what is wrong, or null.
[[nodiscard]] inline const char* read_nibbles(const std::uint8_t* bytes, Position& position) {
    const auto occupied = load<std::uint64_t>(bytes);
    const unsigned count = count_squares(occupied);
    if (count > 32) return "more than 32 pieces";
    const std::uint64_t packed[2] = {load<std::uint64_t>(bytes + 8), load<std::uint64_t>(bytes + 16)};
    if (has_extra_nibbles(packed, count)) return "a piece behind those of the occupied squares";
    position = Position{};
    position.occupied = occupied;
    for (unsigned i = 0; i < 4; ++i) {
        const std::uint64_t bit_i_of_nibbles = std::uint64_t{0x1111111111111111} << i;
        const std::uint64_t low = extract_bits(packed[0], bit_i_of_nibbles);
        const std::uint64_t high = extract_bits(packed[1], bit_i_of_nibbles);
        const unsigned plane = (i + 1) % 4;  // bits of the type are planes 1 to 3, and the colour is plane 0
        position.planes[plane] = deposit_bits(low | high << 16, occupied);
    }
    return nullptr;
}

// Returns the pieces of types 6 and 7, which no piece of chess has.
[[nodiscard]] inline Bitboard special_pieces(const Position& position) {
    return position.planes[2] & position.planes[3];
}

// Writes a board of 24 bytes. `castling_rooks` get type 6.
inline void write_nibbles(const Position& position, Bitboard castling_rooks, std::uint8_t* out) {
    std::memcpy(out, &position.occupied, 8);
    std::memset(out + 8, 0, 16);
    unsigned index = 0;
    for (Bitboard unwritten = position.occupied; unwritten != 0; unwritten &= unwritten - 1, ++index) {
        const unsigned square = first_square(unwritten);
        const bool may_castle = (castling_rooks >> square & 1) != 0;
        const unsigned type = may_castle ? kUnmovedRook : position.type_at(square);
        const auto colour = static_cast<unsigned>(position.planes[0] >> square & 1);
        const unsigned nibble = type | colour << 3;
        std::uint8_t& byte = out[8 + index / 2];
        byte = static_cast<std::uint8_t>(byte | nibble << (4 * (index % 2)));
    }
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
