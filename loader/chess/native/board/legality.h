#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "chess/native/board/rules.h"

// Positions and moves that no game can have, Chess960 included. What is only unlikely is legal here: a double check
// that no move gives, a castling right that can't be used now.
namespace sparsepool::chess {

// Why a position is illegal. Of several reasons the first is reported.
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

// Problems that decoders find before there is a Position, and problems of moves.
inline constexpr char kNotOneKingEach[] = "a side has not exactly one king";
inline constexpr char kNoCastling[] = "a castling right without its king and rook on the first rank";
inline constexpr char kBadEnPassantSquare[] = "an en-passant square that no pawn has passed";
inline constexpr char kImpossibleMove[] = "a move that no piece can make there";
inline constexpr char kTakesKing[] = "a move that takes a king";
inline constexpr char kBlockedCastling[] = "castling without king and rook in place and a free way";

[[nodiscard]] const char* describe(Illegal illegal);

// Returns what is illegal according to a problem that a decoder has found (the texts above); kNone for other problems.
[[nodiscard]] Illegal classify_problem(std::string_view problem);

// What to do with illegal positions while entries are read. An impossible move is damage also with kKeep: the position
// after it is unknown.
enum class OnIllegal : std::uint8_t { kKeep, kStop, kSkip };

inline namespace SPARSEPOOL_ISA {

// Whether a side has more pawns and promoted pieces than the eight pawns that it began with.
[[nodiscard]] inline bool has_too_many_pieces(const Position& position, unsigned colour) {
    const Bitboard own = position.of_colour(colour);
    const Bitboard queens = position.orthogonal_sliders() & position.diagonal_sliders();
    const Bitboard bishops = position.diagonal_sliders() & ~queens;
    const auto count_promoted = [own](Bitboard pieces, unsigned at_start) {
        const unsigned count = count_squares(pieces & own);
        return count > at_start ? count - at_start : 0U;
    };
    const unsigned pawns = count_squares(position.pawns() & own);
    const unsigned promoted = count_promoted(position.knights(), 2) + count_promoted(bishops, 2) +
                              count_promoted(position.rooks(), 2) + count_promoted(queens, 1);
    return pawns + promoted > 8;
}

// Whether `square` can be the en-passant square: empty, on the third rank of the opponent, and right behind one of the
// opponent's pawns.
[[nodiscard]] inline bool is_possible_ep_square(const Position& position, unsigned square) {
    const bool is_white = position.side == kWhite;
    if (square >> 3 != (is_white ? 5U : 2U)) return false;
    const Bitboard enemy_pawns = position.pawns() & position.of_colour(position.side ^ 1U);
    const unsigned pawn_square = is_white ? square - 8 : square + 8;
    return (enemy_pawns & bit_of(pawn_square)) != 0 && (position.occupied & bit_of(square)) == 0;
}

// Whether a castling right has no rook on its square, or no king beside it on the same rank and on the right side.
[[nodiscard]] inline bool has_castling_right_without_pieces(const Position& position) {
    bool is_wrong = false;
    for (unsigned bit = 0; bit < 4; ++bit) {
        const bool has_right = (position.castling >> bit & 1U) != 0;
        const bool is_king_side = bit % 2 == 0;
        const unsigned colour = bit / 2;
        const unsigned rook = position.castling_rook_square(bit);
        const unsigned king = king_square(position, colour);
        const bool has_rook = (position.rooks() & position.of_colour(colour) & bit_of(rook)) != 0;
        const bool has_king = king >> 3 == rook >> 3 && (rook > king) == is_king_side;
        is_wrong |= has_right && !(has_rook && has_king);
    }
    return is_wrong;
}

// Whether the position has an en-passant square that no double push of a pawn can have passed.
[[nodiscard]] inline bool has_impossible_ep_square(const Position& position) {
    if (position.ep_square == kNoSquare) return false;
    if (!is_possible_ep_square(position, position.ep_square)) return true;
    const unsigned origin = position.side == kWhite ? position.ep_square + 8U : position.ep_square - 8U;
    return (position.occupied & bit_of(origin)) != 0;
}

// Returns what is illegal about a position in which each side has one king.
[[nodiscard]] inline Illegal find_illegal(const Position& position) {
    constexpr Bitboard kOuterRanks = kRank1 | kRank1 << 56;
    if (has_too_many_pieces(position, kWhite) || has_too_many_pieces(position, kBlack)) return Illegal::kTooMany;
    if ((position.pawns() & kOuterRanks) != 0) return Illegal::kPawns;
    if (king_is_attacked(position, position.side ^ 1U)) {
        const bool kings_touch = (king_attacks(king_square(position, kWhite)) & position.kings()) != 0;
        return kings_touch ? Illegal::kKingsTouch : Illegal::kCheck;
    }
    if (position.castling != 0 && has_castling_right_without_pieces(position)) return Illegal::kCastling;
    return has_impossible_ep_square(position) ? Illegal::kEnPassant : Illegal::kNone;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
