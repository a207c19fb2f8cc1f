#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "chess/native/board/attacks.h"
#include "chess/native/board/position.h"

// Playing moves, as far as training data depends on it. Rare cases are not inlined, so that the decoder's loop fits the
// instruction cache. Moves come from files and may be nonsense: whatever they are, the position stays consistent (one
// king a side, and the planes agree with the occupied squares).
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

// In kNormal, only a king on e1 or e8 castles, with a rook in its corner.
enum class Variant : std::uint8_t { kNormal, kChess960 };

// Castling rights (bits) that remain after a move from or to each square.
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
    const Bitboard sliders = position.of_colour(attacker);
    return ((rook_attacks(square, occupied) & position.orthogonal_sliders() & sliders) |
            (bishop_attacks(square, occupied) & position.diagonal_sliders() & sliders)) != 0;
}

// Whether the king of this colour is attacked: found from the king's square, as if it moved like each type of piece.
[[nodiscard]] inline bool king_is_attacked(const Position& position, unsigned colour) {
    const unsigned square = king_square(position, colour);
    const Bitboard enemies = position.of_colour(colour ^ 1);
    const Bitboard attackers = (knight_attacks(square) & position.knights()) |
                               (pawn_attacks(colour, square) & position.pawns()) |
                               (king_attacks(square) & position.kings()) |
                               (rook_attacks(square, position.occupied) & position.orthogonal_sliders()) |
                               (bishop_attacks(square, position.occupied) & position.diagonal_sliders());
    return (attackers & enemies) != 0;
}

[[nodiscard]] inline bool in_check(const Position& position) { return king_is_attacked(position, position.side); }

// Whether the side to move has a pawn that can take en passant on `square` (a pawn of the other side has just
// passed over it to `pawn_square`) without leaving its king attacked by a bishop, rook or queen.
[[nodiscard, gnu::noinline]] inline bool en_passant_possible(const Position& position, unsigned square,
                                                             unsigned pawn_square) {
    const unsigned us = position.side;
    const unsigned them = us ^ 1;
    const unsigned king = king_square(position, us);
    Bitboard capturers = pawn_attacks(them, square) & position.pawns() & position.of_colour(us);
    for (; capturers != 0; capturers &= capturers - 1) {
        const Bitboard capturer = capturers & (~capturers + 1);  // the lowest bit
        const Bitboard occupied_after = (position.occupied ^ capturer ^ bit_of(pawn_square)) | bit_of(square);
        if (!slider_gives_check(position, them, king, occupied_after)) return true;
    }
    return false;
}

// Whether the king and a rook of the side to move stand where castling begins: `move` is from the king to the rook.
[[nodiscard]] inline bool has_castling_pieces(const Position& position, Move move) {
    const Bitboard own = position.of_colour(position.side);
    return (position.kings() & own & bit_of(move.from())) != 0 && (position.rooks() & own & bit_of(move.to())) != 0;
}

// Puts king and rook where castling ends: on the g- and f-file, or on the c- and d-file.
inline void put_castled_pieces(Position& position, Move move, unsigned first_square_of_rank) {
    const unsigned us = position.side;
    const bool king_side = move.to() > move.from();
    position.remove_pieces(bit_of(move.from()) | bit_of(move.to()));
    position.put_piece(bit_of(first_square_of_rank + (king_side ? 6 : 2)), 2 * kKing + us);
    position.put_piece(bit_of(first_square_of_rank + (king_side ? 5 : 3)), 2 * kRook + us);
}

[[nodiscard, gnu::noinline]] inline MoveFault play_castling(Position& position, Move move) {
    const unsigned from = move.from();
    const unsigned to = move.to();
    const unsigned first = position.side == kWhite ? 0 : 56;  // square of the rank
    if (from != first + kE1 || (to != first + kA1 && to != first + kH1)) return MoveFault::kBadCastling;
    constexpr Bitboard kFilesFG = 0x60;
    constexpr Bitboard kFilesBCD = 0x0E;
    const Bitboard between = (to > from ? kFilesFG : kFilesBCD) << first;
    if (!has_castling_pieces(position, move) || (position.occupied & between) != 0) return MoveFault::kBadCastling;
    put_castled_pieces(position, move, first);
    return MoveFault::kNone;
}

// Castling of Chess960: king and rook begin anywhere on their rank, and end where those of normal chess do.
[[nodiscard, gnu::noinline]] inline MoveFault play_castling960(Position& position, Move move) {
    const unsigned from = move.from();
    const unsigned to = move.to();
    const unsigned first = position.side == kWhite ? 0 : 56;  // square of the rank
    const bool on_first_rank = (from & 56) == first && (to & 56) == first;
    if (!on_first_rank || !has_castling_pieces(position, move)) return MoveFault::kBadCastling;
    const auto squares_between = [](unsigned a, unsigned b) {  // both ends included
        const Bitboard up_to_last = bit_of(std::max(a, b)) | (bit_of(std::max(a, b)) - 1);
        return up_to_last & ~(bit_of(std::min(a, b)) - 1);
    };
    const unsigned king_to = first + (to > from ? 6 : 2);
    const unsigned rook_to = first + (to > from ? 5 : 3);
    const Bitboard way = squares_between(from, king_to) | squares_between(to, rook_to);
    const Bitboard other_pieces = position.occupied & ~bit_of(from) & ~bit_of(to);
    if ((way & other_pieces) != 0) return MoveFault::kBadCastling;
    put_castled_pieces(position, move, first);
    return MoveFault::kNone;
}

// Returns the castling rights of `position`, which is that before the move, that remain after it.
[[nodiscard]] inline std::uint8_t rights_after960(const Position& position, Move move) {
    unsigned rights = position.castling;
    const Bitboard touched = bit_of(move.from()) | bit_of(move.to());
    const bool moves_king = (position.kings() & bit_of(move.from())) != 0;
    if (moves_king) rights &= position.side == kWhite ? 12U : 3U;  // those of the other side
    for (unsigned bit = 0; bit < 4; ++bit) {
        if ((touched & bit_of(position.castling_rook_square(bit))) != 0) rights &= ~(1U << bit);
    }
    return static_cast<std::uint8_t>(rights);
}

// Checks a move that is not castling, condition by condition.
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
    const Bitboard captured_square = us == kWhite ? to >> 8 : to << 8;  // of en passant
    const Bitboard enemy_pawns = position.pawns() & position.of_colour(us ^ 1);
    return (enemy_pawns & captured_square) != 0 ? MoveFault::kNone : MoveFault::kNoPawnToTake;
}

// Checks a move that is not castling: that an own piece moves, and not onto an own piece or a king. One branch serves
// nearly all moves; the others are checked again to find out what is wrong.
[[nodiscard]] inline MoveFault check_move(const Position& position, Move move) {
    const Bitboard from = bit_of(move.from());
    const Bitboard to = bit_of(move.to());
    const Bitboard own = position.of_colour(position.side);
    const Bitboard wrong_squares = (from & ~own) | (to & (own | position.kings()));
    const bool is_fine = wrong_squares == 0 && move.type() == MoveType::kNormal;
    return is_fine ? MoveFault::kNone : check_unusual_move(position, move);
}

// Plays a move that `check_move` has accepted, all but castling rights and the side to move. Returns whether it is a
// pawn's double push to a square beside an enemy pawn, which might take it en passant. That is rare, so the branch on
// the result is cheap.
[[nodiscard]] inline bool play_ordinary_move(Position& position, Move move) {
    const unsigned us = position.side;
    const unsigned from = move.from();
    const unsigned to = move.to();
    const Bitboard target = bit_of(to);
    const Bitboard pawns = position.pawns();
    const Bitboard enemy_pawns = pawns & position.of_colour(us ^ 1);
    const bool is_pawn = (pawns >> from & 1) != 0;
    const bool is_capture = (position.occupied & target) != 0;
    Bitboard cleared = bit_of(from) | target;
    if (move.type() == MoveType::kEnPassant) [[unlikely]]
        cleared |= us == kWhite ? target >> 8 : target << 8;
    position.move_piece(from, to, cleared);
    if (move.type() == MoveType::kPromotion) [[unlikely]] {
        position.remove_pieces(target);
        position.put_piece(target, 2U * move.promotion() + us);
    }
    position.rule50 = (is_pawn | is_capture) ? std::uint16_t{0} : saturating_increment(position.rule50);
    const Bitboard beside = (target & ~kFileA) >> 1 | (target & ~kFileH) << 1;
    const bool is_two_steps = ((from >> 3) == 1 + 5 * us) & (to == from + 16 - 32 * us);
    return is_pawn & is_two_steps & ((beside & enemy_pawns) != 0);
}

// Plays the move. If it can't be played, returns why and leaves the position as it was.
template <Variant kVariant = Variant::kNormal>
[[nodiscard]] inline MoveFault play(Position& position, Move move) {
    constexpr bool kIs960 = kVariant == Variant::kChess960;
    const unsigned from = move.from();
    const unsigned to = move.to();
    bool may_be_taken_en_passant = false;
    std::uint8_t rights = 0;
    if constexpr (kIs960) rights = position.castling == 0 ? std::uint8_t{0} : rights_after960(position, move);
    if (move.type() == MoveType::kCastling) [[unlikely]] {
        const MoveFault fault = kIs960 ? play_castling960(position, move) : play_castling(position, move);
        if (fault != MoveFault::kNone) return fault;
        position.rule50 = saturating_increment(position.rule50);
    } else {
        const MoveFault fault = check_move(position, move);
        if (fault != MoveFault::kNone) [[unlikely]]
            return fault;
        may_be_taken_en_passant = play_ordinary_move(position, move);
    }
    if constexpr (kIs960) {
        position.castling = rights;
    } else {
        position.castling =
            static_cast<std::uint8_t>(position.castling & kSurvivingRights.data()[from] & kSurvivingRights.data()[to]);
    }
    position.side = position.side ^ 1;
    position.ep_square = kNoSquare;
    if (may_be_taken_en_passant) [[unlikely]] {
        const unsigned square = (from + to) / 2;
        if (en_passant_possible(position, square, to)) position.ep_square = static_cast<std::uint8_t>(square);
    }
    return MoveFault::kNone;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
