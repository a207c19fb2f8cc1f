#pragma once

#include <array>
#include <cstdint>

#include "chess/native/board/attacks.h"
#include "chess/native/board/position.h"

// Threats, inputs of Stockfish's networks since SFNNv10: a piece that attacks another, of either colour, where both
// stand and what both are. Which pairs of types count, and in which order, differs from version to version.
namespace sparsepool::chess {

inline constexpr std::uint32_t kNoThreat = ~std::uint32_t{0};

// For each type of attacker its targets' types, in their order: the place of an attacked P N B R Q K, or -1.
using ThreatMap = std::array<std::array<int, 6>, 6>;

// Piece codes are as a colour sees them: 2 * type + (1 if the opponent's).
struct Threats {
    std::uint32_t num_inputs = 0;
    std::uint32_t base[12][12] = {};           // [attacker][attacked], kNoThreat if the pair is no input
    std::uint16_t square_offset[12][64] = {};  // [attacker]: targets on the empty board of all squares before
    Bitboard reach[12][64] = {};               // [attacker]: targets on the empty board
    std::uint8_t targets[6] = {};              // by type of attacker, a bit for each type that it may attack
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

[[nodiscard]] consteval Threats make_threats(const ThreatMap& map) {
    Threats threats;
    for (std::uint32_t other = 0; other < 2; ++other) {
        for (std::uint32_t type = 0; type < 6; ++type) {
            const std::uint32_t code = 2 * type + other;
            std::uint32_t size = 0;
            for (std::uint32_t square = 0; square < 64; ++square) {
                threats.reach[code][square] = empty_board_attacks(code, square);
                threats.square_offset[code][square] = static_cast<std::uint16_t>(size);
                for (Bitboard rest = threats.reach[code][square]; rest != 0; rest &= rest - 1) ++size;
            }
            std::uint32_t kinds = 0;
            for (std::uint32_t attacked = 0; attacked < 6; ++attacked) {
                if (map[type][attacked] < 0) continue;
                ++kinds;
                threats.targets[type] |= static_cast<std::uint8_t>(1U << attacked);
            }
            for (std::uint32_t attacked = 0; attacked < 12; ++attacked) {
                const int place = map[type][attacked / 2];
                const std::uint32_t kind = static_cast<std::uint32_t>(place) + (attacked % 2) * kinds;
                threats.base[code][attacked] = place < 0 ? kNoThreat : threats.num_inputs + kind * size;
            }
            threats.num_inputs += 2 * kinds * size;
        }
    }
    return threats;
}

}  // namespace sparsepool::chess
