#pragma once

#include <array>

#include "chess/native/board/attacks.h"
#include "chess/native/board/rules.h"

// Pseudo-legal destinations of pieces: pins and checks are ignored.
namespace sparsepool::chess {

// How a type of piece moves. Each member is a mask: all ones for a way in which the piece moves, else zero.
struct Movement {
    Bitboard orthogonal, diagonal, knight, king, pawn;
};

// By PieceType. The last two are of no piece, for codes of damaged data.
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
    const Bitboard enemy = position.occupied ^ own;
    const Bitboard en_passant = Bitboard{position.ep_square != kNoSquare} << (position.ep_square & 63);
    const Bitboard captures = pawn_attacks(us, from) & (enemy | en_passant);
    // Both directions by the same shifts: a branch on the side to move would be mispredicted half the time.
    const unsigned up = 8 - 8 * us;  // 8 for White, 0 for Black
    const unsigned down = 8 - up;
    const Bitboard single_push = (bit_of(from) << up >> down) & empty;
    const Bitboard on_third_rank = single_push & (kRank1 << (16 + 24 * us));  // as the mover sees the board
    const Bitboard double_push = (on_third_rank << up >> down) & empty;
    return captures | single_push | double_push;
}

// Returns the destinations of the piece on `from`, without castling. `own` are the pieces of the side to move, and
// `type` is the piece's. The destinations of all types are computed and those of one are selected: which piece moves is
// as good as random, and a mispredicted branch costs more than the computation.
[[nodiscard]] inline Bitboard destinations(const Position& position, Bitboard own, unsigned type, unsigned from) {
    const Movement& movement = kMovements.data()[type];
    const Bitboard slides = slider_attacks(from, position.occupied, movement.orthogonal, movement.diagonal);
    const Bitboard leaps = (knight_attacks(from) & movement.knight) | (king_attacks(from) & movement.king);
    return ((slides | leaps) & ~own) | (pawn_destinations(position, own, from) & movement.pawn);
}

// Whether a pawn on `from` stands on its seventh rank, so that its next move promotes.
[[nodiscard]] inline bool promotes_next(unsigned colour, unsigned from) { return (from >> 3) == 6 - 5 * colour; }

// Whether the move is pseudo-legal and has the type that it must have. Castling always passes, since `play` checks it.
// Other moves `play` trusts: an impossible one would turn the position into nonsense.
[[nodiscard]] inline bool is_pseudo_legal_or_castling(const Position& position, Move move) {
    if (move.type() == MoveType::kCastling) return true;
    const Bitboard own = position.of_colour(position.side);
    const unsigned from = move.from();
    const unsigned to = move.to();
    if ((own & bit_of(from)) == 0) return false;
    const unsigned type = position.type_at(from);
    if ((destinations(position, own, type, from) & bit_of(to)) == 0) return false;
    const bool is_pawn = type == kPawn;
    const bool promotes = is_pawn & promotes_next(position.side, from);
    const bool is_en_passant = is_pawn & (to == position.ep_square);
    MoveType expected = is_en_passant ? MoveType::kEnPassant : MoveType::kNormal;
    if (promotes) expected = MoveType::kPromotion;
    return move.type() == expected;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
