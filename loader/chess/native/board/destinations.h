#pragma once

#include <array>

#include "chess/native/board/attacks.h"
#include "chess/native/board/rules.h"

// Where pieces may go, pins and checks ignored.
namespace sparsepool::chess {

// How a type of piece moves: all ones for what it does, else zero.
struct Movement {
    Bitboard straight, slanted, knight, king, pawn;
};

inline constexpr std::array<Movement, 8> kMovements = {{
    {0, 0, 0, 0, ~Bitboard{0}},
    {0, 0, ~Bitboard{0}, 0, 0},
    {0, ~Bitboard{0}, 0, 0, 0},
    {~Bitboard{0}, 0, 0, 0, 0},
    {~Bitboard{0}, ~Bitboard{0}, 0, 0, 0},
    {0, 0, 0, ~Bitboard{0}, 0},
}};

inline namespace SPARSEPOOL_ISA {

[[nodiscard]] inline Bitboard pawn_destinations(const Position& position, Bitboard own, unsigned from) {
    const unsigned us = position.side;
    const Bitboard empty = ~position.occupied;
    const Bitboard passed = Bitboard{position.ep_square != kNoSquare} << (position.ep_square & 63);
    const Bitboard takes = pawn_attacks(us, from) & ((position.occupied ^ own) | passed);
    // Both directions by the same shifts: a branch on the side to move would be wrong half the time.
    const unsigned up = 8 - 8 * us;
    const unsigned down = 8 - up;
    const Bitboard one = (bit_of(from) << up >> down) & empty;
    const Bitboard on_third_rank = one & (kRank1 << (16 + 24 * us));
    return takes | one | ((on_third_rank << up >> down) & empty);
}

// Destinations of the own piece on `from`, castling not included; `own` are the pieces of the side to move. All kinds
// of pieces are worked out and one is chosen: what moves is as good as random, and a wrong guess costs more than the
// work.
[[nodiscard]] inline Bitboard destinations(const Position& position, Bitboard own, unsigned type, unsigned from) {
    const Movement& movement = kMovements.data()[type];
    const Bitboard slides = slider_attacks(from, position.occupied, movement.straight, movement.slanted);
    const Bitboard leaps = (knight_attacks(from) & movement.knight) | (king_attacks(from) & movement.king);
    return ((slides | leaps) & ~own) | (pawn_destinations(position, own, from) & movement.pawn);
}

[[nodiscard]] inline bool promotes_next(unsigned colour, unsigned from) { return (from >> 3) == 6 - 5 * colour; }

// Whether the move is one of its piece's, pins and checks ignored: castling as `play` of Chess960 has it, other moves
// of the type that they are. Without it `play` makes a whole position of nonsense.
[[nodiscard]] inline bool is_pseudo_legal_or_castling(const Position& position, Move move) {
    if (move.type() == MoveType::kCastling) return true;
    const Bitboard own = position.of_colour(position.side);
    const unsigned from = move.from();
    if ((own & bit_of(from)) == 0) return false;
    const unsigned type = position.type_at(from);
    if ((destinations(position, own, type, from) & bit_of(move.to())) == 0) return false;
    const bool pawn = type == kPawn;
    const bool promotes = pawn & promotes_next(position.side, from);
    const bool passing = pawn & (move.to() == position.ep_square);
    const MoveType is = promotes ? MoveType::kPromotion : passing ? MoveType::kEnPassant : MoveType::kNormal;
    return move.type() == is;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
