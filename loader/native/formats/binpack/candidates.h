#pragma once

#include "chess/rules.h"
#include "formats/binpack/layout.h"

// What the indices of the move text count: own pieces, and where each may go (pins and checks ignored).
namespace sparsepool::binpack {

inline namespace SPARSEPOOL_ISA {

using chess::Bitboard;

[[nodiscard]] inline Bitboard pawn_destinations(const chess::Position& position, unsigned from) {
    const unsigned us = position.side;
    const Bitboard empty = ~position.occupied;
    const Bitboard passed = position.ep_square == chess::kNoSquare ? 0 : chess::bit_of(position.ep_square);
    const Bitboard takes = chess::pawn_attacks(us, from) & (position.of_colour(us ^ 1) | passed);
    // Both directions by the same shifts: a branch on the side to move would be wrong half the time.
    const unsigned up = us == chess::kWhite ? 8 : 0;
    const unsigned down = 8 - up;
    const Bitboard one = (chess::bit_of(from) << up >> down) & empty;
    const Bitboard on_third_rank = one & (chess::kRank1 << (us == chess::kWhite ? 16 : 40));
    return takes | one | ((on_third_rank << up >> down) & empty);
}

// Destinations of the own piece on `from`; castling not included. All kinds of pieces are worked out and one is
// chosen: what moves is as good as random, and a wrong guess costs more than the work.
[[nodiscard]] inline Bitboard destinations(const chess::Position& position, unsigned type, unsigned from) {
    const auto all_if = [type](unsigned a, unsigned b) { return type == a || type == b ? ~Bitboard{0} : Bitboard{0}; };
    const Bitboard slides = chess::slider_attacks(from, position.occupied, all_if(chess::kRook, chess::kQueen),
                                                  all_if(chess::kBishop, chess::kQueen));
    const Bitboard leaps = (chess::knight_attacks(from) & all_if(chess::kKnight, chess::kKnight)) |
                           (chess::king_attacks(from) & all_if(chess::kKing, chess::kKing));
    const Bitboard pawn = pawn_destinations(position, from) & all_if(chess::kPawn, chess::kPawn);
    return ((slides | leaps) & ~position.of_colour(position.side)) | pawn;
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
