#pragma once

#include <cstdint>

namespace sparsepool::chess {

inline constexpr std::int16_t kNoScore = 32002;  // marks 'no value'
inline constexpr std::int8_t kNoResult = -128;   // likewise; its own opposite, so it is the same for both sides

enum RecordFlags : std::uint16_t {
    kBlackToMove = 1,    // side to move
    kInCheck = 2,        // the side to move is in check
    kNoPly = 1U << 15U,  // the ply is not known
};
// What shares the flags' word: the result in two bits, castling rights in four, as Position::castling has them, and the
// half-move clock in seven.
inline constexpr unsigned kResultShift = 2, kRightsShift = 4, kClockShift = 8;
inline constexpr unsigned kRecordClock = 127;  // that and more

// Encodes -1, 0, 1 or kNoResult in two bits, the lowest and the highest of its byte: 3, 0, 1, 2.
[[nodiscard]] constexpr unsigned result_bits(std::int8_t result) {
    const unsigned byte = static_cast<std::uint8_t>(result);
    return (byte & 1U) | (byte >> 6 & 2U);
}

// One training entry as the stream carries it, 32 bytes: what filters, features and dense fields need.
// Score and result are from the side to move's point of view. Piece codes are 2 * type + colour, as in a binpack's
// packed position: types pawn, knight, bishop, rook, queen, king; white 0, black 1. (The codes 12..15 of the file,
// which also tell castling and en passant, never occur here.)
struct Record {
    std::uint64_t occupied = 0;    // bit a1 = 0 ... h8 = 63
    std::uint32_t planes[4] = {};  // bit j of planes[i]: bit i of the code of the piece on the j-th occupied square
    std::int16_t score = 0;        // internal units of the engine, or kNoScore
    std::uint16_t ply = 0;
    std::uint16_t move = 0;   // type << 14 | from << 8 | to << 2 | promotion
    std::uint16_t flags = 0;  // RecordFlags and what is behind them

    // Returns -1, 0, 1, or kNoResult.
    [[nodiscard]] constexpr std::int8_t result() const {
        constexpr std::uint32_t kResults = 0xFF800100;  // bytes by result_bits, from the lowest: 0, 1, kNoResult, -1
        return static_cast<std::int8_t>(kResults >> 8 * (flags >> kResultShift & 3U));
    }
    [[nodiscard]] constexpr unsigned clock() const { return flags >> kClockShift & kRecordClock; }
};
static_assert(sizeof(Record) == 32);

}  // namespace sparsepool::chess
