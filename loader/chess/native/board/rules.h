#pragma once

#include <array>
#include <cstring>

#include "chess/native/board/attacks.h"
#include "chess/native/board/position.h"

// Playing moves, as far as training data depends on it. What is rare is kept out of line: the decoder's loop, which
// everything else becomes part of, then fits the caches of instructions. Moves come from files and may be nonsense:
// whatever they are, the position stays whole (one king a side, bitboards and nibbles in agreement).
namespace sparsepool::chess {

enum class MoveFault : std::uint8_t {
    kNone,
    kNotOwnPiece,
    kOntoOwnPiece,
    kTakesKing,
    kNotAPawn,
    kNoPawnToTake,
    kBadCastling,
};

// Of normal chess, castling is of a king on e1 or e8 with a rook in its corner.
enum class Variant : std::uint8_t { kNormal, kChess960 };

// Rights that survive a move from or to a square.
consteval std::array<std::uint8_t, 64> make_surviving_rights() {
    std::array<std::uint8_t, 64> rights{};
    rights.fill(15);
    rights[kA1] = 15 & ~kWhiteQueenSide;
    rights[kE1] = 15 & ~(kWhiteKingSide | kWhiteQueenSide);
    rights[kH1] = 15 & ~kWhiteKingSide;
    rights[kA8] = 15 & ~kBlackQueenSide;
    rights[kE8] = 15 & ~(kBlackKingSide | kBlackQueenSide);
    rights[kH8] = 15 & ~kBlackKingSide;
    return rights;
}

inline constexpr std::array<std::uint8_t, 64> kSurvivingRights = make_surviving_rights();

inline namespace SPARSEPOOL_ISA {

[[nodiscard]] inline bool has_one_king_each(const Position& position) {
    return count_squares(position.kings() & position.of_colour(kWhite)) == 1 &&
           count_squares(position.kings() & position.of_colour(kBlack)) == 1;
}

[[nodiscard]] inline unsigned king_square(const Position& position, unsigned colour) {
    return first_square(position.kings() & position.of_colour(colour));
}

// Whether a bishop, rook or queen of `attacker` attacks the square.
[[nodiscard]] inline bool slider_gives_check(const Position& position, unsigned attacker, unsigned square,
                                             Bitboard occupied) {
    const Bitboard theirs = position.of_colour(attacker);
    return ((rook_attacks(square, occupied) & position.orthogonal_sliders() & theirs) |
            (bishop_attacks(square, occupied) & position.diagonal_sliders() & theirs)) != 0;
}

[[nodiscard]] inline bool king_is_attacked(const Position& position, unsigned colour) {
    const unsigned square = king_square(position, colour);
    const Bitboard theirs = position.of_colour(colour ^ 1);
    const Bitboard attackers = (knight_attacks(square) & position.knights()) |
                               (pawn_attacks(colour, square) & position.pawns()) |
                               (king_attacks(square) & position.kings()) |
                               (rook_attacks(square, position.occupied) & position.orthogonal_sliders()) |
                               (bishop_attacks(square, position.occupied) & position.diagonal_sliders());
    return (attackers & theirs) != 0;
}

[[nodiscard]] inline bool in_check(const Position& position) { return king_is_attacked(position, position.side); }

// Whether the side to move has a pawn that can take en passant on `square` (a pawn of the other side has just
// passed over it to `pawn_square`) without leaving its king attacked by a bishop, rook or queen.
[[nodiscard, gnu::noinline]] inline bool en_passant_possible(const Position& position, unsigned square,
                                                             unsigned pawn_square) {
    const unsigned us = position.side;
    const unsigned them = us ^ 1;
    Bitboard takers = pawn_attacks(them, square) & position.pawns() & position.of_colour(us);
    for (; takers != 0; takers &= takers - 1) {
        const Bitboard taker = takers & (~takers + 1);
        const Bitboard occupied = (position.occupied ^ taker ^ bit_of(pawn_square)) | bit_of(square);
        if (!slider_gives_check(position, them, king_square(position, us), occupied)) return true;
    }
    return false;
}

[[nodiscard, gnu::noinline]] inline MoveFault play_castling(Position& position, Move move) {
    const unsigned us = position.side;
    const unsigned from = move.from();
    const unsigned to = move.to();
    const unsigned base = us == kWhite ? 0 : 56;
    const bool king_side = to > from;
    if (from != base + kE1 || (to != base + kA1 && to != base + kH1)) return MoveFault::kBadCastling;
    const Bitboard between = (king_side ? Bitboard{0x60} : Bitboard{0x0E}) << base;
    const Bitboard own = position.of_colour(us);
    const bool in_place = (position.kings() & own & bit_of(from)) != 0 && (position.rooks() & own & bit_of(to)) != 0;
    if (!in_place || (position.occupied & between) != 0) return MoveFault::kBadCastling;
    position.remove_pieces(bit_of(from) | bit_of(to));
    position.put_piece(bit_of(base + (king_side ? 6 : 2)), 2 * kKing + us);
    position.put_piece(bit_of(base + (king_side ? 5 : 3)), 2 * kRook + us);
    return MoveFault::kNone;
}

// Castling of Chess960: king and rook begin anywhere on their rank, and end where those of normal chess do.
[[nodiscard, gnu::noinline]] inline MoveFault play_castling960(Position& position, Move move) {
    const unsigned us = position.side;
    const unsigned from = move.from();
    const unsigned to = move.to();
    const unsigned base = us == kWhite ? 0 : 56;
    const Bitboard own = position.of_colour(us);
    const bool in_place = (position.kings() & own & bit_of(from)) != 0 && (position.rooks() & own & bit_of(to)) != 0 &&
                          (from & 56) == base && (to & 56) == base;
    if (!in_place) return MoveFault::kBadCastling;
    const unsigned king_to = base + (to > from ? 6 : 2);
    const unsigned rook_to = base + (to > from ? 5 : 3);
    const auto way = [](unsigned a, unsigned b) {  // both ends included
        return a < b ? (bit_of(b) | (bit_of(b) - 1)) & ~(bit_of(a) - 1)
                     : (bit_of(a) | (bit_of(a) - 1)) & ~(bit_of(b) - 1);
    };
    const Bitboard others = position.occupied & ~bit_of(from) & ~bit_of(to);
    if (((way(from, king_to) | way(to, rook_to)) & others) != 0) return MoveFault::kBadCastling;
    position.remove_pieces(bit_of(from) | bit_of(to));
    position.put_piece(bit_of(king_to), 2 * kKing + us);
    position.put_piece(bit_of(rook_to), 2 * kRook + us);
    return MoveFault::kNone;
}

// Rights of `position`, before the move, that survive it.
[[nodiscard]] inline std::uint8_t rights_after960(const Position& position, Move move) {
    unsigned rights = position.castling;
    const Bitboard touched = bit_of(move.from()) | bit_of(move.to());
    const bool king = (position.kings() & bit_of(move.from())) != 0;
    if (king) rights &= position.side == kWhite ? 12U : 3U;
    for (unsigned bit = 0; bit < 4; ++bit) {
        if ((touched & bit_of(position.castling_rook_square(bit))) != 0) rights &= ~(1U << bit);
    }
    return static_cast<std::uint8_t>(rights);
}

// What must hold for a move that is not castling.
[[nodiscard, gnu::noinline]] inline MoveFault check_unusual_move(const Position& position, Move move) {
    const unsigned us = position.side;
    const Bitboard from = bit_of(move.from());
    const Bitboard to = bit_of(move.to());
    const Bitboard own = position.of_colour(us);
    if ((own & from) == 0) return MoveFault::kNotOwnPiece;
    if ((own & to) != 0) return MoveFault::kOntoOwnPiece;
    if ((position.kings() & to) != 0) return MoveFault::kTakesKing;
    if (move.type() == MoveType::kNormal) return MoveFault::kNone;
    if ((position.pawns() & from) == 0) return MoveFault::kNotAPawn;
    if (move.type() == MoveType::kPromotion) return MoveFault::kNone;
    const Bitboard behind = us == kWhite ? to >> 8 : to << 8;
    const Bitboard enemy_pawns = position.pawns() & position.of_colour(us ^ 1);
    return (enemy_pawns & behind) != 0 ? MoveFault::kNone : MoveFault::kNoPawnToTake;
}

// Makes a sound move that is not castling. Gives back whether it is a pawn's double step past which a pawn stands
// that might take it: that is rare, so the one branch that follows is cheap.
[[nodiscard]] inline bool play_ordinary_move(Position& position, Move move) {
    const unsigned us = position.side;
    const unsigned from = move.from();
    const unsigned to = move.to();
    const Bitboard target = bit_of(to);
    const Bitboard pawns = position.pawns();
    const Bitboard enemy_pawns = pawns & position.of_colour(us ^ 1);
    const bool pawn = (pawns >> from & 1) != 0;
    const bool takes = (position.occupied & target) != 0;
    Bitboard lifted = bit_of(from) | target;
    if (move.type() == MoveType::kEnPassant) [[unlikely]]
        lifted |= us == kWhite ? target >> 8 : target << 8;
    position.move_piece(from, to, lifted);
    if (move.type() == MoveType::kPromotion) [[unlikely]] {
        position.remove_pieces(target);
        position.put_piece(target, 2U * move.promotion() + us);
    }
    position.rule50 = (pawn | takes) ? std::uint16_t{0} : saturating_increment(position.rule50);
    const Bitboard beside = (target & ~kFileA) >> 1 | (target & ~kFileH) << 1;
    const bool twice = ((from >> 3) == 1 + 5 * us) & (to == from + 16 - 32 * us);
    return pawn & twice & ((beside & enemy_pawns) != 0);
}

// Moves but castling are checked at once, and only if something is wrong, or might be, one by one.
[[nodiscard]] inline MoveFault check_move(const Position& position, Move move) {
    const Bitboard from = bit_of(move.from());
    const Bitboard to = bit_of(move.to());
    const Bitboard own = position.of_colour(position.side);
    const bool plain = ((from & ~own) | (to & (own | position.kings()))) == 0 && move.type() == MoveType::kNormal;
    return plain ? MoveFault::kNone : check_unusual_move(position, move);
}

// Plays the move, or says what is wrong with it and leaves the position as it was.
template <Variant kVariant = Variant::kNormal>
[[nodiscard]] inline MoveFault play(Position& position, Move move) {
    constexpr bool k960 = kVariant == Variant::kChess960;
    const unsigned from = move.from();
    const unsigned to = move.to();
    bool passed = false;
    std::uint8_t rights = 0;
    if constexpr (k960) rights = position.castling == 0 ? std::uint8_t{0} : rights_after960(position, move);
    if (move.type() == MoveType::kCastling) [[unlikely]] {
        const MoveFault fault = k960 ? play_castling960(position, move) : play_castling(position, move);
        if (fault != MoveFault::kNone) return fault;
        position.rule50 = saturating_increment(position.rule50);
    } else {
        const MoveFault fault = check_move(position, move);
        if (fault != MoveFault::kNone) [[unlikely]]
            return fault;
        passed = play_ordinary_move(position, move);
    }
    if constexpr (k960) {
        position.castling = rights;
    } else {
        position.castling =
            static_cast<std::uint8_t>(position.castling & kSurvivingRights.data()[from] & kSurvivingRights.data()[to]);
    }
    position.side = position.side ^ 1;
    position.ep_square = kNoSquare;
    if (passed) [[unlikely]] {
        const unsigned square = (from + to) / 2;
        if (en_passant_possible(position, square, to)) position.ep_square = static_cast<std::uint8_t>(square);
    }
    return MoveFault::kNone;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
