#pragma once

#include <array>

#include "chess/bitboard.h"

// Attack sets. Small tables on purpose (5 KB): they share the first-level cache with everything else.
namespace sparsepool::chess {

inline constexpr Bitboard kFileA = 0x0101010101010101;
inline constexpr Bitboard kFileH = 0x8080808080808080;
inline constexpr Bitboard kRank1 = 0xFF;

struct LineMasks {  // the lines through a square, without the square itself
    Bitboard file = 0;
    Bitboard diagonal = 0;
    Bitboard antidiagonal = 0;
};

struct AttackTables {
    std::array<Bitboard, 64> knight{};
    std::array<Bitboard, 64> king{};
    std::array<LineMasks, 64> lines{};
    std::array<std::array<std::uint8_t, 64>, 8> rank{};  // [file of the slider][inner six squares of its rank]
};

consteval AttackTables make_attack_tables() {
    AttackTables tables;
    const auto inside = [](int file, int rank) { return file >= 0 && file < 8 && rank >= 0 && rank < 8; };
    for (int square = 0; square < 64; ++square) {
        const int file = square % 8;
        const int rank = square / 8;
        const auto index = static_cast<std::size_t>(square);
        for (int other = 0; other < 64; ++other) {
            const int df = other % 8 - file;
            const int dr = other / 8 - rank;
            const Bitboard bit = Bitboard{1} << other;
            const int distance = df * df + dr * dr;
            if (distance == 5) tables.knight[index] |= bit;
            if (distance == 1 || distance == 2) tables.king[index] |= bit;
            if (distance == 0) continue;
            if (df == 0) tables.lines[index].file |= bit;
            if (df == dr) tables.lines[index].diagonal |= bit;
            if (df == -dr) tables.lines[index].antidiagonal |= bit;
        }
    }
    for (int file = 0; file < 8; ++file) {
        for (unsigned inner = 0; inner < 64; ++inner) {
            const unsigned occupied = inner << 1;
            unsigned attacked = 0;
            for (const int step : {-1, 1}) {
                for (int to = file + step; inside(to, 0); to += step) {
                    attacked |= 1U << to;
                    if ((occupied >> to) & 1U) break;
                }
            }
            tables.rank[static_cast<std::size_t>(file)][inner] = static_cast<std::uint8_t>(attacked);
        }
    }
    return tables;
}

inline constexpr AttackTables kAttacks = make_attack_tables();

inline namespace SPARSEPOOL_ISA {

// Along one line: subtracting the slider from the blockers above it flips everything up to the first one;
// the same on the byte-swapped board gives the other direction. Works for lines that cross each rank once.
[[nodiscard]] inline Bitboard line_attacks(Bitboard occupied, Bitboard line, Bitboard slider) {
    const Bitboard blockers = occupied & line;
    const Bitboard up = blockers - slider;
    const Bitboard down = __builtin_bswap64(__builtin_bswap64(blockers) - __builtin_bswap64(slider));
    return (up ^ down) & line;
}

[[nodiscard]] inline Bitboard bishop_attacks(unsigned square, Bitboard occupied) {
    const LineMasks& lines = kAttacks.lines[square];
    const Bitboard slider = bit_of(square);
    return line_attacks(occupied, lines.diagonal, slider) | line_attacks(occupied, lines.antidiagonal, slider);
}

[[nodiscard]] inline Bitboard rook_attacks(unsigned square, Bitboard occupied) {
    const unsigned shift = square & 56;
    const Bitboard along_rank = kAttacks.rank[square & 7][(occupied >> (shift + 1)) & 63];
    return line_attacks(occupied, kAttacks.lines[square].file, bit_of(square)) | (along_rank << shift);
}

[[nodiscard]] inline Bitboard knight_attacks(unsigned square) { return kAttacks.knight[square]; }

[[nodiscard]] inline Bitboard king_attacks(unsigned square) { return kAttacks.king[square]; }

// Squares that pawns of this colour (0 white, 1 black) on `pawns` attack.
[[nodiscard]] inline Bitboard pawn_attacks(unsigned colour, Bitboard pawns) {
    const Bitboard towards_a = pawns & ~kFileA;
    const Bitboard towards_h = pawns & ~kFileH;
    return colour == 0 ? (towards_a << 7) | (towards_h << 9) : (towards_a >> 9) | (towards_h >> 7);
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
