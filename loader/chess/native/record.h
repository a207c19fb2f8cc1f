#pragma once

#include <cstdint>

namespace sparsepool::chess {

inline constexpr std::int16_t kNoScore = 32002;  // marks 'no value'
inline constexpr std::int8_t kNoResult = -128;   // likewise; its own opposite, so it is the same for both sides

enum RecordFlags : std::uint8_t {
    kBlackToMove = 1,  // side to move
    kInCheck = 2,      // the side to move is in check
    kCapture = 4,      // an enemy piece stands on the move's destination (not en passant)
    kNoPly = 8,        // the ply is not known
};
inline constexpr unsigned kRightsShift = 4;  // of castling rights behind the flags: bits as Position::castling has them

// One training entry as the stream carries it, 32 bytes: what filters, features and dense fields need.
// Score and result are from the side to move's point of view. Piece codes are 2 * type + colour, as in a binpack's
// packed position: types pawn, knight, bishop, rook, queen, king; white 0, black 1. (The codes 12..15 of the file,
// which also tell castling and en passant, never occur here.)
struct Record {
    std::uint64_t occupied = 0;    // bit a1 = 0 ... h8 = 63
    std::uint32_t planes[4] = {};  // bit j of planes[i]: bit i of the code of the piece on the j-th occupied square
    std::int16_t score = 0;        // internal units of the engine, or kNoScore
    std::uint16_t ply = 0;
    std::uint16_t move = 0;  // type << 14 | from << 8 | to << 2 | promotion
    std::int8_t result = 0;  // -1, 0, 1, or kNoResult
    std::uint8_t flags = 0;  // RecordFlags, and castling rights
};
static_assert(sizeof(Record) == 32);

}  // namespace sparsepool::chess
