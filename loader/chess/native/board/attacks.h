#pragma once

#include <array>
#include <cstddef>

#include "chess/native/board/bitboard.h"

// Attack sets. Small tables on purpose (7 KB): they share the first-level cache with everything else.
namespace sparsepool::chess {

inline constexpr Bitboard kFileA = 0x0101010101010101;
inline constexpr Bitboard kFileH = 0x8080808080808080;
inline constexpr Bitboard kRank1 = 0xFF;

enum Line : std::uint8_t { kRank, kFile, kDiagonal, kAntidiagonal, kNumLines };

// The four lines through a square. A slider's attacks along a line depend on the line's other squares only: they
// are squeezed together (seven bits at most), looked up for the slider's place on the line, and spread again.
// The same table serves all lines and pieces, so nothing branches on the kind of piece.
struct SquareLines {
    Bitboard mask[kNumLines] = {};      // without the square itself
    std::uint16_t row[kNumLines] = {};  // in AttackTables::along, for the slider's place: squares of the line before it
};

struct AttackTables {
    std::array<Bitboard, 64> knight{};
    std::array<Bitboard, 64> king{};
    std::array<std::array<Bitboard, 64>, 2> pawn{};  // [colour]
    std::array<SquareLines, 64> lines{};
    std::array<std::uint8_t, 8 * 128> along{};  // by slider's place, then occupied squares of the line, squeezed
};

consteval void add_target(AttackTables& tables, int square, int other) {
    const int df = other % 8 - square % 8;
    const int dr = other / 8 - square / 8;
    const auto index = static_cast<std::size_t>(square);
    const Bitboard bit = Bitboard{1} << other;
    const int distance = df * df + dr * dr;
    if (distance == 5) tables.knight[index] |= bit;
    if (distance == 1 || distance == 2) tables.king[index] |= bit;
    if (distance == 2 && dr == 1) tables.pawn[0][index] |= bit;
    if (distance == 2 && dr == -1) tables.pawn[1][index] |= bit;
    const bool on_line[kNumLines] = {dr == 0, df == 0, df == dr, df == -dr};
    for (std::size_t line = 0; line < kNumLines; ++line) {
        if (distance == 0 || !on_line[line]) continue;
        tables.lines[index].mask[line] |= bit;
        if (other < square) tables.lines[index].row[line] += 128;
    }
}

// What a slider attacks on a line of up to eight squares; the line's other squares are given without its own.
consteval std::uint8_t attacked_along(unsigned place, unsigned others) {
    unsigned attacked = 0;
    for (unsigned i = place; i-- > 0;) {  // below, from the nearest
        attacked |= 1U << i;
        if ((others >> i & 1U) != 0) break;
    }
    for (unsigned i = place; i < 7; ++i) {
        attacked |= 1U << i;
        if ((others >> i & 1U) != 0) break;
    }
    return static_cast<std::uint8_t>(attacked);
}

consteval AttackTables make_attack_tables() {
    AttackTables tables;
    for (int square = 0; square < 64; ++square) {
        for (int other = 0; other < 64; ++other) add_target(tables, square, other);
    }
    for (unsigned place = 0; place < 8; ++place) {
        for (unsigned others = 0; others < 128; ++others) {
            tables.along[128 * place + others] = attacked_along(place, others);
        }
    }
    return tables;
}

inline constexpr AttackTables kAttacks = make_attack_tables();

inline namespace SPARSEPOOL_ISA {

#if defined(__BMI2__)
// `use` is all ones or, for a line along which the piece doesn't move, zero: then nothing is attacked.
[[nodiscard]] inline Bitboard line_attacks(const SquareLines& lines, Line line, Bitboard occupied, Bitboard use) {
    const Bitboard mask = lines.mask[line] & use;
    return deposit_bits(kAttacks.along.data()[lines.row[line] + extract_bits(occupied, mask)], mask);
}
#else
// Without pext: subtracting the slider from the blockers above it flips everything up to the first one; the same
// on the mirrored board gives the other direction. Bytes swapped mirror every line but the rank.
[[nodiscard]] inline Bitboard line_attacks(const SquareLines& lines, Line line, Bitboard occupied, Bitboard use) {
    const Bitboard mask = lines.mask[line] & use;
    if (line == kRank) {
        const unsigned shift = static_cast<unsigned>(&lines - kAttacks.lines.data()) & 56;
        const auto rank = static_cast<unsigned>(occupied >> shift) & 255;
        const unsigned below = (1U << lines.row[line] / 128) - 1;
        const unsigned attacked = kAttacks.along[lines.row[line] + ((rank & below) | (rank >> 1 & ~below & 127))];
        return (Bitboard{(attacked & below) | (attacked & ~below) << 1} << shift) & mask;
    }
    const Bitboard slider = bit_of(static_cast<unsigned>(&lines - kAttacks.lines.data()));
    const Bitboard blockers = occupied & mask;
    const Bitboard down = __builtin_bswap64(__builtin_bswap64(blockers) - __builtin_bswap64(slider));
    return ((blockers - slider) ^ down) & mask;
}
#endif

// Along ranks and files if `straight`, along diagonals if `slanted`: zero or all ones.
[[nodiscard]] inline Bitboard slider_attacks(unsigned square, Bitboard occupied, Bitboard straight, Bitboard slanted) {
    const SquareLines& lines = kAttacks.lines.data()[square];
    return line_attacks(lines, kRank, occupied, straight) | line_attacks(lines, kFile, occupied, straight) |
           line_attacks(lines, kDiagonal, occupied, slanted) | line_attacks(lines, kAntidiagonal, occupied, slanted);
}

[[nodiscard]] inline Bitboard bishop_attacks(unsigned square, Bitboard occupied) {
    return slider_attacks(square, occupied, 0, ~Bitboard{0});
}

[[nodiscard]] inline Bitboard rook_attacks(unsigned square, Bitboard occupied) {
    return slider_attacks(square, occupied, ~Bitboard{0}, 0);
}

[[nodiscard]] inline Bitboard knight_attacks(unsigned square) { return kAttacks.knight.data()[square]; }

[[nodiscard]] inline Bitboard king_attacks(unsigned square) { return kAttacks.king.data()[square]; }

// Squares that a pawn of this colour (0 white, 1 black) attacks.
[[nodiscard]] inline Bitboard pawn_attacks(unsigned colour, unsigned square) {
    return kAttacks.pawn.data()[colour].data()[square];
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
