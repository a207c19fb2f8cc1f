#pragma once

#include <array>

#include "chess/native/board/rules.h"
#include "formats/binpack/native/layout.h"

// What the indices of the move text count: own pieces, and where each may go (pins and checks ignored).
namespace sparsepool::binpack {

using chess::Bitboard;

// How a type of piece moves: all ones for what it does, else zero.
struct Manner {
    Bitboard straight, slanted, knight, king, pawn;
};

inline constexpr std::array<Manner, 8> kManners = {{
    {0, 0, 0, 0, ~Bitboard{0}},
    {0, 0, ~Bitboard{0}, 0, 0},
    {0, ~Bitboard{0}, 0, 0, 0},
    {~Bitboard{0}, 0, 0, 0, 0},
    {~Bitboard{0}, ~Bitboard{0}, 0, 0, 0},
    {0, 0, 0, ~Bitboard{0}, 0},
}};

inline namespace SPARSEPOOL_ISA {

[[nodiscard]] inline Bitboard pawn_destinations(const chess::Position& position, Bitboard own, unsigned from) {
    const unsigned us = position.side;
    const Bitboard empty = ~position.occupied;
    const Bitboard passed = Bitboard{position.ep_square != chess::kNoSquare} << (position.ep_square & 63);
    const Bitboard takes = chess::pawn_attacks(us, from) & ((position.occupied ^ own) | passed);
    // Both directions by the same shifts: a branch on the side to move would be wrong half the time.
    const unsigned up = 8 - 8 * us;
    const unsigned down = 8 - up;
    const Bitboard one = (chess::bit_of(from) << up >> down) & empty;
    const Bitboard on_third_rank = one & (chess::kRank1 << (16 + 24 * us));
    return takes | one | ((on_third_rank << up >> down) & empty);
}

// Destinations of the own piece on `from`, castling not included; `own` are the pieces of the side to move. All kinds
// of pieces are worked out and one is chosen: what moves is as good as random, and a wrong guess costs more than the
// work.
[[nodiscard]] inline Bitboard destinations(const chess::Position& position, Bitboard own, unsigned type,
                                           unsigned from) {
    const Manner& manner = kManners.data()[type];
    const Bitboard slides = chess::slider_attacks(from, position.occupied, manner.straight, manner.slanted);
    const Bitboard leaps = (chess::knight_attacks(from) & manner.knight) | (chess::king_attacks(from) & manner.king);
    return ((slides | leaps) & ~own) | (pawn_destinations(position, own, from) & manner.pawn);
}

[[nodiscard]] inline bool promotes_next(unsigned colour, unsigned from) { return (from >> 3) == 6 - 5 * colour; }

// Rights the side to move still holds, used or not: bit 0 king-side, bit 1 queen-side.
[[nodiscard]] inline unsigned own_castling(const chess::Position& position) {
    return (position.castling >> (2 * position.side)) & 3U;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::binpack
