#pragma once

#include <array>
#include <cstddef>

#include "chess/native/board/bitboard.h"

// Attack sets by tables. The tables are small on purpose (7 KB): they share the first-level cache with everything else.
namespace sparsepool::chess {

inline constexpr Bitboard kFileA = 0x0101010101010101;
inline constexpr Bitboard kFileH = 0x8080808080808080;
inline constexpr Bitboard kRank1 = 0xFF;

enum Line : std::uint8_t { kRank, kFile, kDiagonal, kAntidiagonal, kNumLines };

// The four lines through a square. A slider's attacks along a line depend only on which other squares of the line are
// occupied. Those are extracted (pext, seven bits at most), looked up by the slider's index on the line, and deposited
// again (pdep). The same table serves all lines and pieces, so nothing branches on the kind of piece.
struct SquareLines {
    Bitboard mask[kNumLines] = {};            // without the square itself
    std::uint16_t table_row[kNumLines] = {};  // of AttackTables::on_line: 128 * the slider's index on the line
};

struct AttackTables {
    std::array<Bitboard, 64> knight{};
    std::array<Bitboard, 64> king{};
    std::array<std::array<Bitboard, 64>, 2> pawn{};  // [colour]
    std::array<SquareLines, 64> lines{};
    std::array<std::uint8_t, 8 * 128> on_line{};  // [slider's index on the line][occupied squares of the line, 7 bits]
};

// Adds `target` to the attack sets of those pieces on `square` that reach it on an empty board.
consteval void add_target(AttackTables& tables, int square, int target) {
    const int files = target % 8 - square % 8;
    const int ranks = target / 8 - square / 8;
    const int squared_distance = files * files + ranks * ranks;  // 1 orthogonal step, 2 diagonal step, 5 knight's jump
    if (squared_distance == 0) return;
    const auto index = static_cast<std::size_t>(square);
    const Bitboard bit = Bitboard{1} << target;
    if (squared_distance == 5) tables.knight[index] |= bit;
    if (squared_distance <= 2) tables.king[index] |= bit;
    if (squared_distance == 2 && ranks == 1) tables.pawn[0][index] |= bit;
    if (squared_distance == 2 && ranks == -1) tables.pawn[1][index] |= bit;
    const bool is_on_line[kNumLines] = {ranks == 0, files == 0, files == ranks, files == -ranks};
    for (std::size_t line = 0; line < kNumLines; ++line) {
        if (!is_on_line[line]) continue;
        tables.lines[index].mask[line] |= bit;
        if (target < square) tables.lines[index].table_row[line] += 128;
    }
}

// Returns what a slider attacks on a line: in both directions up to the first occupied square, which is included. Bit i
// of `occupied` and of the result is the i-th square of the line without the slider's own, which lies before bit
// `slider_index`.
consteval std::uint8_t attacks_on_line(unsigned slider_index, unsigned occupied) {
    unsigned attacked = 0;
    for (unsigned i = slider_index; i-- > 0;) {  // downwards
        attacked |= 1U << i;
        if ((occupied >> i & 1U) != 0) break;
    }
    for (unsigned i = slider_index; i < 7; ++i) {  // upwards
        attacked |= 1U << i;
        if ((occupied >> i & 1U) != 0) break;
    }
    return static_cast<std::uint8_t>(attacked);
}

consteval AttackTables make_attack_tables() {
    AttackTables tables;
    for (int square = 0; square < 64; ++square) {
        for (int target = 0; target < 64; ++target) add_target(tables, square, target);
    }
    for (unsigned slider_index = 0; slider_index < 8; ++slider_index) {
        for (unsigned occupied = 0; occupied < 128; ++occupied) {
            tables.on_line[128 * slider_index + occupied] = attacks_on_line(slider_index, occupied);
        }
    }
    return tables;
}

inline constexpr AttackTables kAttacks = make_attack_tables();

inline namespace SPARSEPOOL_ISA {

#if defined(__BMI2__)
// Returns the attacks of a slider along a line. `moves_along` is all ones, or zero for a piece that does not move along
// this line: then nothing is attacked.
[[nodiscard]] inline Bitboard line_attacks(const SquareLines& lines, Line line, Bitboard occupied,
                                           Bitboard moves_along) {
    const Bitboard mask = lines.mask[line] & moves_along;
    return deposit_bits(kAttacks.on_line.data()[lines.table_row[line] + extract_bits(occupied, mask)], mask);
}
#else
// The same without pext. Files and diagonals by hyperbola quintessence (chessprogramming.org): subtracting the slider
// from the blockers above it flips every square up to the first blocker, and the same on the mirrored board gives the
// other direction. Swapping bytes mirrors every line but a rank, which is looked up instead.
[[nodiscard]] inline Bitboard line_attacks(const SquareLines& lines, Line line, Bitboard occupied,
                                           Bitboard moves_along) {
    const auto square = static_cast<unsigned>(&lines - kAttacks.lines.data());
    const Bitboard mask = lines.mask[line] & moves_along;
    if (line == kRank) {
        const unsigned shift = square & 56;  // of the rank's byte
        const auto rank = static_cast<unsigned>(occupied >> shift) & 255;
        const unsigned files_below = (1U << (square & 7)) - 1;
        const unsigned without_slider = (rank & files_below) | (rank >> 1 & ~files_below & 127);
        const unsigned attacked = kAttacks.on_line[lines.table_row[line] + without_slider];
        const unsigned with_slider = (attacked & files_below) | (attacked & ~files_below) << 1;
        return (Bitboard{with_slider} << shift) & mask;
    }
    const Bitboard slider = bit_of(square);
    const Bitboard blockers = occupied & mask;
    const Bitboard upwards = blockers - slider;
    const Bitboard downwards = __builtin_bswap64(__builtin_bswap64(blockers) - __builtin_bswap64(slider));
    return (upwards ^ downwards) & mask;
}
#endif

// Returns the attacks along ranks and files if `orthogonal`, and along diagonals if `diagonal`; both are masks, all
// ones or zero.
[[nodiscard]] inline Bitboard slider_attacks(unsigned square, Bitboard occupied, Bitboard orthogonal,
                                             Bitboard diagonal) {
    const SquareLines& lines = kAttacks.lines.data()[square];
    return line_attacks(lines, kRank, occupied, orthogonal) | line_attacks(lines, kFile, occupied, orthogonal) |
           line_attacks(lines, kDiagonal, occupied, diagonal) | line_attacks(lines, kAntidiagonal, occupied, diagonal);
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
