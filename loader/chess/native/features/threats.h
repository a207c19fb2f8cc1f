#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "chess/native/board/attacks.h"
#include "chess/native/board/position.h"

// Threats, inputs of Stockfish's networks since SFNNv10: a piece that attacks another, of either colour, where both
// stand and what both are. Which pairs of types count, and in which order, differs from version to version.
namespace sparsepool::chess {

// For each type of attacker its targets' types, in their order: the place of an attacked P N B R Q K, or -1.
using ThreatMap = std::array<std::array<int, 6>, 6>;

// Piece codes are as a colour sees them: 2 * type + (1 if the opponent's). A threat is numbered
//     half (if the attacker is the opponent's) + before + kinds * size + how many squares of `reach` come before its
//     own.
struct Threats {
    std::uint32_t num_inputs = 0;
    std::uint32_t half = 0;             // those of own attackers
    std::uint16_t before[12][64] = {};  // [attacker]: threats of the types before, and targets of the squares before
    std::uint8_t kinds[6][16] = {};     // [type of attacker][attacked]: its place among the targets, if it is one
    std::uint16_t size[6] = {};         // by type of attacker: targets on the empty board, of all squares
    std::uint8_t targets[6] = {};       // by type of attacker, a bit for each type that it may attack
    alignas(16) std::uint8_t attackers[16] = {};  // by attacked, a bit for each type that may attack it
};

[[nodiscard]] consteval Bitboard empty_board_attacks(std::uint32_t code, std::uint32_t square) {
    const auto& mask = kAttacks.lines[square].mask;
    const Bitboard straight = mask[kRank] | mask[kFile];
    const Bitboard slanted = mask[kDiagonal] | mask[kAntidiagonal];
    switch (code / 2) {
        case kPawn: return square < 8 || square >= 56 ? 0 : kAttacks.pawn[code % 2][square];
        case kKnight: return kAttacks.knight[square];
        case kBishop: return slanted;
        case kRook: return straight;
        case kQueen: return straight | slanted;
        default: return kAttacks.king[square];
    }
}

// Where each piece goes on the empty board.
struct Reach {
    Bitboard squares[12][64] = {};
    alignas(64) std::uint8_t ranks[12][64][64] = {};  // [code][from]: how many of `squares` come before a square
};

[[nodiscard]] consteval Reach make_reach() {
    Reach reach;
    for (std::uint32_t code = 0; code < 12; ++code) {
        for (std::uint32_t from = 0; from < 64; ++from) {
            const Bitboard squares = empty_board_attacks(code, from);
            reach.squares[code][from] = squares;
            std::uint8_t rank = 0;
            for (std::uint32_t square = 0; square < 64; ++square) {
                reach.ranks[code][from][square] = rank;
                rank = static_cast<std::uint8_t>(rank + (squares >> square & 1));
            }
        }
    }
    return reach;
}

inline constexpr Reach kReach = make_reach();

[[nodiscard]] consteval Threats make_threats(const ThreatMap& map) {
    Threats threats;
    for (std::uint32_t type = 0; type < 6; ++type) {
        std::uint32_t num_targets = 0;
        for (std::uint32_t attacked = 0; attacked < 6; ++attacked) {
            if (map[type][attacked] < 0) continue;
            ++num_targets;
            threats.targets[type] |= static_cast<std::uint8_t>(1U << attacked);
        }
        for (std::uint32_t attacked = 0; attacked < 12; ++attacked) {
            const int place = map[type][attacked / 2];
            if (place < 0) continue;
            threats.attackers[attacked] |= static_cast<std::uint8_t>(1U << type);
            threats.kinds[type][attacked] =
                static_cast<std::uint8_t>(static_cast<std::uint32_t>(place) + attacked % 2 * num_targets);
        }
        std::uint32_t size = 0;
        for (std::uint32_t code = 2 * type; code < 2 * type + 2; ++code) {
            size = 0;  // the same for pawns of either side
            for (std::uint32_t square = 0; square < 64; ++square) {
                threats.before[code][square] = static_cast<std::uint16_t>(threats.half + size);
                size += static_cast<std::uint32_t>(std::popcount(kReach.squares[code][square]));
            }
        }
        threats.size[type] = static_cast<std::uint16_t>(size);
        threats.half += 2 * num_targets * size;
    }
    threats.num_inputs = 2 * threats.half;
    return threats;
}

}  // namespace sparsepool::chess
