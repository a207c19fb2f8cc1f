#pragma once

#include "chess/rules.h"
#include "formats/binpack/layout.h"

// What the indices of the move text count: own pieces, and where each may go (pins and checks ignored).
namespace sparsepool::binpack {

inline namespace SPARSEPOOL_ISA {

using chess::Bitboard;

[[nodiscard]] inline Bitboard pawn_destinations(const chess::Position& position, unsigned from) {
    const unsigned us = position.side;
    const Bitboard pawn = chess::bit_of(from);
    const Bitboard empty = ~position.occupied();
    const Bitboard passed = position.ep_square == chess::kNoSquare ? 0 : chess::bit_of(position.ep_square);
    const Bitboard takes = chess::pawn_attacks(us, pawn) & (position.colours[us ^ 1] | passed);
    if (us == chess::kWhite) {
        const Bitboard one = (pawn << 8) & empty;
        return takes | one | ((one & (chess::kRank1 << 16)) << 8 & empty);
    }
    const Bitboard one = (pawn >> 8) & empty;
    return takes | one | ((one & (chess::kRank1 << 40)) >> 8 & empty);
}

// Destinations of the own piece on `from`; castling not included.
[[nodiscard]] inline Bitboard destinations(const chess::Position& position, unsigned type, unsigned from) {
    const Bitboard occupied = position.occupied();
    Bitboard attacked = 0;
    switch (type) {
        case chess::kPawn: return pawn_destinations(position, from);
        case chess::kKnight: attacked = chess::knight_attacks(from); break;
        case chess::kBishop: attacked = chess::bishop_attacks(from, occupied); break;
        case chess::kRook: attacked = chess::rook_attacks(from, occupied); break;
        case chess::kQueen:
            attacked = chess::bishop_attacks(from, occupied) | chess::rook_attacks(from, occupied);
            break;
        default: attacked = chess::king_attacks(from); break;
    }
    return attacked & ~position.colours[position.side];
}

[[nodiscard]] inline bool promotes_next(unsigned colour, unsigned from) {
    return (from >> 3) == (colour == chess::kWhite ? 6U : 1U);
}

// Rights the side to move still holds, used or not: bit 0 king-side, bit 1 queen-side.
[[nodiscard]] inline unsigned own_castling(const chess::Position& position) {
    return (position.castling >> (position.side == chess::kWhite ? 0 : 2)) & 3U;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::binpack
