#pragma once

#include <cstdint>

#include "chess/native/board/legality.h"
#include "chess/native/formats/nibbles.h"

// The 32 bytes of marlinformat, which also begin a game of viriformat:
//
//     0  occupied squares, 8  nibbles, type 6 a rook that may still castle: its place tells which
//    24  en-passant square, 64 for none; 128 more if black moves
//    25  halfmove clock     26  u16 move number, 0 for unknown
//    28  i16 score          30  result, 0 to 2; both White's view
//    31  extra, which is not read
namespace sparsepool::chess {

inline constexpr std::size_t kMarlinBytes = 32;

inline namespace SPARSEPOOL_ISA {

// Makes rooks of rooks that may castle, and their rights: of those of a colour the ones before the king are queen-side.
[[nodiscard]] inline const char* read_castling_rights(Position& position) {
    for (Bitboard rest = special_pieces(position); rest != 0; rest &= rest - 1) {
        const unsigned square = first_square(rest);
        const unsigned code = position.code_at(square);
        if (code >> 1 != kUnmovedRook) return "no piece has the number 7";
        position.remove_pieces(bit_of(square));
        position.put_piece(bit_of(square), 2U * kRook + (code & 1));
        const unsigned colour = code & 1;
        const Bitboard king = position.kings() & position.of_colour(colour);
        const unsigned home = colour == kWhite ? 0 : 7;
        if (king == 0 || square >> 3 != home || first_square(king) >> 3 != home) return kNoCastling;
        const unsigned bit = 2 * colour + (square < first_square(king) ? 1U : 0U);
        if ((position.castling >> bit & 1U) != 0) return "two rooks with the same castling right";
        position.castling = static_cast<std::uint8_t>(position.castling | 1U << bit);
        position.set_castling_rook_file(bit, square & 7);
    }
    position.chess960 = implies_chess960(position);
    return nullptr;
}

// All but the score; `white_result`: -1, 0, 1.
[[nodiscard]] inline const char* read_marlin_board(const std::uint8_t* bytes, unsigned required_parts, Entry& entry,
                                                   std::int8_t& white_result) {
    Position& position = entry.position;
    if (const char* wrong = read_nibbles(bytes, position)) return wrong;
    position.side = bytes[24] >> 7;
    const unsigned passed = bytes[24] & 127U;
    if (special_pieces(position) != 0) {
        if (const char* wrong = read_castling_rights(position)) return wrong;
    }
    if (!has_one_king_each(position)) return kNotOneKingEach;
    if (passed > 64) return "the en-passant square is beyond 64";
    if (passed != 64 && !is_possible_ep_square(position, passed)) return kBadEnPassantSquare;
    position.ep_square = static_cast<std::uint8_t>(passed);
    position.rule50 = bytes[25];
    const auto number = load<std::uint16_t>(bytes + 26);
    if (const char* wrong = find_move_number_problem(number, required_parts)) return wrong;
    if (bytes[30] > 2) return "the result is not 0, 1 or 2";
    white_result = static_cast<std::int8_t>(bytes[30] - 1);
    entry.ply = ply_of(number, position.side);
    entry.missing_parts = number == 0 ? kPlyPart : 0;
    entry.result = static_cast<std::int8_t>(position.side == kWhite ? white_result : -white_result);
    return nullptr;
}

}  // namespace SPARSEPOOL_ISA

inline constexpr unsigned kMarlinKeeps = kPlyPart;  // of what an entry lacks
inline constexpr unsigned kMarlinClock = 255;       // at most

// Why the record can't hold the position; null if it can.
[[nodiscard]] const char* find_marlin_board_problem(const Position& position);

// Writes 32 bytes, the score of `white_score`.
void write_marlin_record(const Entry& entry, std::int16_t white_score, std::uint8_t* out);

}  // namespace sparsepool::chess
