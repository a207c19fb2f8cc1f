#pragma once

#include <array>
#include <cstring>

#include "chess/attacks.h"
#include "chess/position.h"
#include "chess/record.h"

// Playing moves, as far as training data depends on it. Moves come from files and may be nonsense:
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

[[nodiscard]] inline unsigned king_square(const Position& position, unsigned colour) {
    return first_square(position.types[kKing] & position.colours[colour]);
}

// Whether a bishop, rook or queen of `attacker` attacks the square.
[[nodiscard]] inline bool slider_attacks(const Position& position, unsigned attacker, unsigned square,
                                         Bitboard occupied) {
    const Bitboard theirs = position.colours[attacker];
    const Bitboard straight = (position.types[kRook] | position.types[kQueen]) & theirs;
    const Bitboard slanted = (position.types[kBishop] | position.types[kQueen]) & theirs;
    return ((rook_attacks(square, occupied) & straight) | (bishop_attacks(square, occupied) & slanted)) != 0;
}

[[nodiscard]] inline bool in_check(const Position& position) {
    const unsigned us = position.side;
    const unsigned them = us ^ 1;
    const unsigned square = king_square(position, us);
    const Bitboard near = (knight_attacks(square) & position.types[kKnight]) |
                          (pawn_attacks(us, bit_of(square)) & position.types[kPawn]) |
                          (king_attacks(square) & position.types[kKing]);
    return (near & position.colours[them]) != 0 || slider_attacks(position, them, square, position.occupied());
}

inline void lift_piece(Position& position, unsigned square, unsigned colour) {
    const unsigned index = squares_before(position.occupied(), square);
    const unsigned code = nibble_at(position.pieces, index);
    position.pieces = without_nibble(position.pieces, index);
    position.types[code >> 1] ^= bit_of(square);
    position.colours[colour] ^= bit_of(square);
}

inline void drop_piece(Position& position, unsigned square, unsigned type, unsigned colour) {
    const unsigned index = squares_before(position.occupied(), square);
    position.pieces = with_nibble(position.pieces, index, 2 * type + colour);
    position.types[type] ^= bit_of(square);
    position.colours[colour] ^= bit_of(square);
}

// Whether the side to move has a pawn that can take en passant on `square` (a pawn of the other side has just
// passed over it to `pawn_square`) without leaving its king attacked by a bishop, rook or queen.
[[nodiscard]] inline bool en_passant_possible(const Position& position, unsigned square, unsigned pawn_square) {
    const unsigned us = position.side;
    const unsigned them = us ^ 1;
    Bitboard takers = pawn_attacks(them, bit_of(square)) & position.types[kPawn] & position.colours[us];
    for (; takers != 0; takers &= takers - 1) {
        const Bitboard taker = takers & (~takers + 1);
        const Bitboard occupied = (position.occupied() ^ taker ^ bit_of(pawn_square)) | bit_of(square);
        if (!slider_attacks(position, them, king_square(position, us), occupied)) return true;
    }
    return false;
}

[[nodiscard]] inline MoveFault play_castling(Position& position, Move move) {
    const unsigned us = position.side;
    const unsigned from = move.from();
    const unsigned to = move.to();
    const unsigned base = us == kWhite ? 0 : 56;
    const bool king_side = to > from;
    if (from != base + kE1 || (to != base + kA1 && to != base + kH1)) return MoveFault::kBadCastling;
    const Bitboard between = (king_side ? Bitboard{0x60} : Bitboard{0x0E}) << base;
    const bool in_place = (position.types[kKing] & position.colours[us] & bit_of(from)) != 0 &&
                          (position.types[kRook] & position.colours[us] & bit_of(to)) != 0;
    if (!in_place || (position.occupied() & between) != 0) return MoveFault::kBadCastling;
    lift_piece(position, from, us);
    lift_piece(position, to, us);
    drop_piece(position, base + (king_side ? 6 : 2), kKing, us);
    drop_piece(position, base + (king_side ? 5 : 3), kRook, us);
    return MoveFault::kNone;
}

// What must hold for a move that is not castling.
[[nodiscard]] inline MoveFault check_move(const Position& position, Move move) {
    const unsigned us = position.side;
    const Bitboard from = bit_of(move.from());
    const Bitboard to = bit_of(move.to());
    if ((position.colours[us] & from) == 0) return MoveFault::kNotOwnPiece;
    if ((position.colours[us] & to) != 0) return MoveFault::kOntoOwnPiece;
    if ((position.types[kKing] & to) != 0) return MoveFault::kTakesKing;
    if (move.type() == MoveType::kNormal) return MoveFault::kNone;
    if ((position.types[kPawn] & from) == 0) return MoveFault::kNotAPawn;
    if (move.type() == MoveType::kPromotion) return MoveFault::kNone;
    const Bitboard behind = us == kWhite ? to >> 8 : to << 8;
    const Bitboard enemy_pawns = position.types[kPawn] & position.colours[us ^ 1];
    return (enemy_pawns & behind) != 0 ? MoveFault::kNone : MoveFault::kNoPawnToTake;
}

// Plays the move, or says what is wrong with it and leaves the position as it was.
[[nodiscard]] inline MoveFault play(Position& position, Move move) {
    const unsigned us = position.side;
    const unsigned them = us ^ 1;
    const unsigned from = move.from();
    const unsigned to = move.to();
    bool resets_rule50 = false;
    unsigned passed = kNoSquare;
    if (move.type() == MoveType::kCastling) {
        const MoveFault fault = play_castling(position, move);
        if (fault != MoveFault::kNone) return fault;
    } else {
        const MoveFault fault = check_move(position, move);
        if (fault != MoveFault::kNone) return fault;
        const unsigned index = squares_before(position.occupied(), from);
        const unsigned type = nibble_at(position.pieces, index) >> 1;
        position.pieces = without_nibble(position.pieces, index);
        position.types[type] ^= bit_of(from);
        position.colours[us] ^= bit_of(from);
        resets_rule50 = type == kPawn;
        if ((position.colours[them] & bit_of(to)) != 0) {
            lift_piece(position, to, them);
            resets_rule50 = true;
        }
        if (move.type() == MoveType::kEnPassant) lift_piece(position, us == kWhite ? to - 8 : to + 8, them);
        drop_piece(position, to, move.type() == MoveType::kPromotion ? unsigned{move.promotion()} : type, us);
        const bool on_start_rank = (from >> 3) == (us == kWhite ? 1U : 6U);
        if (type == kPawn && on_start_rank && to == (us == kWhite ? from + 16 : from - 16)) passed = (from + to) / 2;
    }
    position.rule50 = resets_rule50 ? std::uint8_t{0} : static_cast<std::uint8_t>(position.rule50 + 1);
    position.castling = static_cast<std::uint8_t>(position.castling & kSurvivingRights[from] & kSurvivingRights[to]);
    position.side = static_cast<std::uint8_t>(them);
    const bool passable = passed != kNoSquare && en_passant_possible(position, passed, to);
    position.ep_square = static_cast<std::uint8_t>(passable ? passed : unsigned{kNoSquare});
    return MoveFault::kNone;
}

// The entry as the stream carries it.
[[nodiscard]] inline Record make_record(const Entry& entry) {
    const Position& position = entry.position;
    Record record;
    record.occupied = position.occupied();
    std::memcpy(record.pieces, &position.pieces, sizeof record.pieces);
    record.score = entry.score;
    record.ply = entry.ply;
    record.move = entry.move.word;
    record.result = entry.result;
    const bool capture = (position.colours[position.side ^ 1] & bit_of(entry.move.to())) != 0;
    unsigned flags = position.side == kBlack ? unsigned{kBlackToMove} : 0U;
    flags |= in_check(position) ? unsigned{kInCheck} : 0U;
    flags |= capture ? unsigned{kCapture} : 0U;
    flags |= entry.move.type() == MoveType::kPromotion ? unsigned{kPromotion} : 0U;
    record.flags = static_cast<std::uint8_t>(flags);
    return record;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
