#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "chess/native/board/rules.h"

// Positions and moves that no game can have, Chess960 included. What is only unlikely is none: a double check that no
// move gives, a right that can't be used now.
namespace sparsepool::chess {

// Of several the first is told.
enum class Illegal : std::uint8_t {
    kNone,
    kKings,
    kTooMany,
    kPawns,
    kKingsTouch,
    kCheck,
    kCastling,
    kEnPassant,
    kMove,  // the move of an entry, not the position
};
inline constexpr std::size_t kNumIllegal = 9;

// Words of a decoder for what a Position can't hold, and for moves.
inline constexpr char kNotOneKingEach[] = "a side has not exactly one king";
inline constexpr char kNoCastling[] = "a castling right without its king and rook on the first rank";
inline constexpr char kBadEnPassantSquare[] = "an en-passant square that no pawn has passed";
inline constexpr char kImpossibleMove[] = "a move that no piece can make there";
inline constexpr char kTakesKing[] = "a move that takes a king";
inline constexpr char kBlockedCastling[] = "castling without king and rook in place and a free way";

[[nodiscard]] const char* describe(Illegal illegal);

// What a decoder's words, as above, mean; kNone for others.
[[nodiscard]] Illegal classify_problem(std::string_view words);

// What becomes of illegal positions while entries are read. A move that no piece can make is damage also with kKeep:
// nothing can be told of what comes of it.
enum class OnIllegal : std::uint8_t { kKeep, kStop, kSkip };

inline namespace SPARSEPOOL_ISA {

[[nodiscard]] inline bool has_too_many_pieces(const Position& position, unsigned colour) {
    const Bitboard own = position.of_colour(colour);
    const Bitboard queens = position.orthogonal_sliders() & position.diagonal_sliders();
    const auto count = [own](Bitboard pieces) { return count_squares(pieces & own); };
    const auto promoted = [](unsigned pieces, unsigned at_the_start) {
        return pieces > at_the_start ? pieces - at_the_start : 0U;
    };
    // With eight pawns and no promoted piece there are 16 pieces at most.
    return count(position.pawns()) + promoted(count(position.knights()), 2) +
               promoted(count(position.diagonal_sliders() & ~queens), 2) + promoted(count(position.rooks()), 2) +
               promoted(count(queens), 1) >
           8;
}

// An en-passant square that a pawn can have passed over in the move before, its first one.
[[nodiscard]] inline bool is_possible_ep_square(const Position& position, unsigned square) {
    if (square >> 3 != (position.side == kWhite ? 5U : 2U)) return false;
    const Bitboard theirs = position.pawns() & position.of_colour(position.side ^ 1U);
    const unsigned pawn = position.side == kWhite ? square - 8 : square + 8;
    return (theirs & bit_of(pawn)) != 0 && (position.occupied & bit_of(square)) == 0;
}

[[nodiscard]] inline bool has_castling_right_without_pieces(const Position& position) {
    bool wrong = false;
    for (unsigned bit = 0; bit < 4; ++bit) {
        const unsigned colour = bit / 2;
        const unsigned rook = position.castling_rook_square(bit);
        const unsigned king = king_square(position, colour);
        const bool there = (position.rooks() & position.of_colour(colour) & bit_of(rook)) != 0;
        const bool beside = king >> 3 == rook >> 3 && (rook > king) == (bit % 2 == 0);
        wrong |= (position.castling >> bit & 1U) != 0 && !(there && beside);
    }
    return wrong;
}

[[nodiscard]] inline bool has_impossible_ep_square(const Position& position) {
    if (position.ep_square == kNoSquare) return false;
    if (!is_possible_ep_square(position, position.ep_square)) return true;
    const unsigned origin = position.side == kWhite ? position.ep_square + 8U : position.ep_square - 8U;
    return (position.occupied & bit_of(origin)) != 0;
}

// Of a position with one king each.
[[nodiscard]] inline Illegal find_illegal(const Position& position) {
    constexpr Bitboard kOuterRanks = kRank1 | kRank1 << 56;
    if (has_too_many_pieces(position, kWhite) || has_too_many_pieces(position, kBlack)) return Illegal::kTooMany;
    if ((position.pawns() & kOuterRanks) != 0) return Illegal::kPawns;
    if (king_is_attacked(position, position.side ^ 1U)) {
        const bool touch = (king_attacks(king_square(position, kWhite)) & position.kings()) != 0;
        return touch ? Illegal::kKingsTouch : Illegal::kCheck;
    }
    if (position.castling != 0 && has_castling_right_without_pieces(position)) return Illegal::kCastling;
    return has_impossible_ep_square(position) ? Illegal::kEnPassant : Illegal::kNone;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
