#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "chess/native/board/attacks.h"
#include "chess/native/board/position.h"

// Threats, inputs of Stockfish's networks since SFNNv10: a piece that attacks another, of either colour, where both
// stand and what both are. Which pairs of types count, and in which order, differs from version to version.
namespace sparsepool::chess {

// For each type of attacker, the order of the types that it may attack: by attacked type P N B R Q K, its index or -1.
using ThreatMap = std::array<std::array<int, 6>, 6>;

// Tables of the indices of threats. Piece codes are as a colour sees them: 2 * type + (1 if the opponent's). The index
// of a threat is
//     half (if the attacker is the opponent's) + before[attacker][from] + kinds[type][attacked] * size[type]
//     + kReach.ranks[attacker][from][to]
struct Threats {
    std::uint32_t num_inputs = 0;
    std::uint32_t half = 0;             // number of threats by own attackers
    std::uint16_t before[12][64] = {};  // [attacker][from]: threats of lower types, and targets of lower squares
    std::uint8_t kinds[6][16] = {};  // [type of attacker][attacked]: the index of the attacked piece, if it is a target
    std::uint16_t size[6] = {};      // by type of attacker: number of targets on the empty board, from all squares
    std::uint8_t targets[6] = {};    // by type of attacker: a bit for each type that it may attack
    alignas(16) std::uint8_t attackers[16] = {};  // by attacked: a bit for each type that may attack it
};

// Returns what a piece attacks on the empty board. Pawns on the first and last rank attack nothing.
[[nodiscard]] consteval Bitboard empty_board_attacks(std::uint32_t code, std::uint32_t square) {
    const auto& mask = kAttacks.lines[square].mask;
    const Bitboard orthogonal = mask[kRank] | mask[kFile];
    const Bitboard diagonal = mask[kDiagonal] | mask[kAntidiagonal];
    switch (code / 2) {
        case kPawn: return square < 8 || square >= 56 ? 0 : kAttacks.pawn[code % 2][square];
        case kKnight: return kAttacks.knight[square];
        case kBishop: return diagonal;
        case kRook: return orthogonal;
        case kQueen: return orthogonal | diagonal;
        default: return kAttacks.king[square];
    }
}

// What each piece attacks on the empty board.
struct Reach {
    Bitboard squares[12][64] = {};
    alignas(
        64) std::uint8_t ranks[12][64][64] = {};  // [code][from][square]: how many of `squares` are below the square
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

// Fills the tables by type of attacker for which pieces are targets, and returns the number of target types.
consteval std::uint32_t add_targets(Threats& threats, const ThreatMap& map, std::uint32_t type) {
    std::uint32_t num_targets = 0;
    for (std::uint32_t attacked = 0; attacked < 6; ++attacked) {
        if (map[type][attacked] < 0) continue;
        ++num_targets;
        threats.targets[type] |= static_cast<std::uint8_t>(1U << attacked);
    }
    for (std::uint32_t attacked = 0; attacked < 12; ++attacked) {
        const int index = map[type][attacked / 2];
        if (index < 0) continue;
        const std::uint32_t is_opponents = attacked % 2;
        threats.attackers[attacked] |= static_cast<std::uint8_t>(1U << type);
        threats.kinds[type][attacked] =
            static_cast<std::uint8_t>(static_cast<std::uint32_t>(index) + is_opponents * num_targets);
    }
    return num_targets;
}

[[nodiscard]] consteval Threats make_threats(const ThreatMap& map) {
    Threats threats;
    for (std::uint32_t type = 0; type < 6; ++type) {
        const std::uint32_t num_targets = add_targets(threats, map, type);
        std::uint32_t size = 0;
        for (std::uint32_t code = 2 * type; code < 2 * type + 2; ++code) {
            size = 0;  // the same for both colours
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
