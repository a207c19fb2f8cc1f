#pragma once

#include <cstdint>

#include "chess/native/board/legality.h"
#include "chess/native/formats/nibbles.h"

// The 32 bytes of marlinformat, which also begin a game of viriformat:
//
//     0  u64 occupied squares, 8  nibbles (nibbles.h); type 6 is a rook with its castling right
//    24  en-passant square, 64 for none; bit 7: black moves
//    25  halfmove clock     26  u16 move number, 0 for unknown
//    28  i16 score          30  result, 0 to 2; both White's view
//    31  extra, which is not read
namespace sparsepool::chess {

inline constexpr std::size_t kMarlinBytes = 32;

inline namespace SPARSEPOOL_ISA {

// Turns pieces of type 6 into rooks and adds their castling rights: queen-side for a rook before its king. Returns what
// is wrong, or null.
[[nodiscard]] inline const char* read_castling_rights(Position& position) {
    for (Bitboard unread = special_pieces(position); unread != 0; unread &= unread - 1) {
        const unsigned square = first_square(unread);
        const unsigned code = position.code_at(square);
        if (code >> 1 != kUnmovedRook) return "no piece has the number 7";
        const unsigned colour = code & 1;
        position.remove_pieces(bit_of(square));
        position.put_piece(bit_of(square), 2U * kRook + colour);
        const Bitboard king = position.kings() & position.of_colour(colour);
        const unsigned home_rank = colour == kWhite ? 0 : 7;
        if (king == 0 || square >> 3 != home_rank || first_square(king) >> 3 != home_rank) return kNoCastling;
        const bool is_queen_side = square < first_square(king);
        const unsigned bit = 2 * colour + (is_queen_side ? 1U : 0U);
        if ((position.castling >> bit & 1U) != 0) return "two rooks with the same castling right";
        position.castling = static_cast<std::uint8_t>(position.castling | 1U << bit);
        position.set_castling_rook_file(bit, square & 7);
    }
    position.chess960 = implies_chess960(position);
    return nullptr;
}

// Reads all of a record but its score and move. `white_result` is -1, 0 or 1. Returns what is wrong, or null.
[[nodiscard]] inline const char* read_marlin_board(const std::uint8_t* bytes, unsigned required_parts, Entry& entry,
                                                   std::int8_t& white_result) {
    Position& position = entry.position;
    if (const char* problem = read_nibbles(bytes, position)) return problem;
    position.side = bytes[24] >> 7;
    const unsigned ep_square = bytes[24] & 127U;
    if (special_pieces(position) != 0) {
        if (const char* problem = read_castling_rights(position)) return problem;
    }
    if (!has_one_king_each(position)) return kNotOneKingEach;
    if (ep_square > kNoSquare) return "the en-passant square is beyond 64";
    if (ep_square != kNoSquare && !is_possible_ep_square(position, ep_square)) return kBadEnPassantSquare;
    position.ep_square = static_cast<std::uint8_t>(ep_square);
    position.rule50 = bytes[25];
    const auto move_number = load<std::uint16_t>(bytes + 26);
    if (const char* problem = find_move_number_problem(move_number, required_parts)) return problem;
    const std::uint8_t result = bytes[30];
    if (result > 2) return "the result is not 0, 1 or 2";
    white_result = static_cast<std::int8_t>(result - 1);
    entry.ply = ply_of(move_number, position.side);
    entry.missing_parts = move_number == 0 ? kPlyPart : 0;
    entry.result = static_cast<std::int8_t>(position.side == kWhite ? white_result : -white_result);
    return nullptr;
}

}  // namespace SPARSEPOOL_ISA

inline constexpr unsigned kMarlinKeeps = kPlyPart;  // parts that a record can mark as missing
inline constexpr unsigned kMarlinClock = 255;       // longest clock

// Returns why a record can't hold the position; null if it can.
[[nodiscard]] const char* find_marlin_board_problem(const Position& position);

// Writes a record of 32 bytes. The score is `white_score`, not the entry's.
void write_marlin_record(const Entry& entry, std::int16_t white_score, std::uint8_t* out);

}  // namespace sparsepool::chess
