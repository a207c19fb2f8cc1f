#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "chess/native/board/position.h"
#include "chess/native/record.h"

namespace sparsepool::chess {

// The pieces of a record by type. Bit j of a set is the piece on the j-th occupied square. The types are bits of piece
// codes: plane 1 knight, rook, king; plane 2 bishop, rook; plane 3 queen, king.
class PieceSets {
  public:
    using Set = std::uint32_t;

    explicit PieceSets(const Record& record) : record_(record) {}

    [[nodiscard]] Set knights() const { return plane(1) & ~plane(2) & ~plane(3); }
    [[nodiscard]] Set bishops() const { return plane(2) & ~plane(1); }
    [[nodiscard]] Set rooks() const { return plane(1) & plane(2); }
    [[nodiscard]] Set queens() const { return plane(3) & ~plane(1); }
    [[nodiscard]] Set kings() const { return plane(1) & plane(3); }
    [[nodiscard]] Set pawns() const { return all() & ~(plane(1) | plane(2) | plane(3)); }
    [[nodiscard]] Set of_colour(unsigned colour) const { return colour == kBlack ? plane(0) : all() & ~plane(0); }

    // Returns the sum of pawn 1, knight 3, bishop 3, rook 5, queen 9.
    [[nodiscard]] int material() const { return material_of(~Set{0}); }
    [[nodiscard]] int material(unsigned colour) const { return material_of(of_colour(colour)); }

    // Returns the sum of knight 1, bishop 1, rook 2, queen 4; 24 at most.
    [[nodiscard]] int phase() const {
        const int minor = std::popcount(knights() | bishops());
        return std::min(minor + 2 * std::popcount(rooks()) + 4 * std::popcount(queens()), 24);
    }

    [[nodiscard]] unsigned king(unsigned colour) const {
        return nth_square(record_.occupied, static_cast<unsigned>(std::countr_zero(kings() & of_colour(colour))));
    }

    // Whether a piece of this colour is on the square.
    [[nodiscard]] bool has_piece_on(unsigned square, unsigned colour) const {
        const std::uint64_t bit = std::uint64_t{1} << square;
        const Set piece = Set{1} << (squares_before(record_.occupied, square) & 31U);
        return (record_.occupied & bit) != 0 && (of_colour(colour) & piece) != 0;
    }

  private:
    [[nodiscard]] Set plane(unsigned number) const { return record_.planes[number]; }
    [[nodiscard]] Set all() const {
        return static_cast<Set>((std::uint64_t{1} << count_squares(record_.occupied)) - 1);
    }
    [[nodiscard]] int material_of(Set among) const {
        return std::popcount(pawns() & among) + 3 * std::popcount((knights() | bishops()) & among) +
               5 * std::popcount(rooks() & among) + 9 * std::popcount(queens() & among);
    }

    const Record& record_;
};

// Whether the move takes a piece on its destination: not en passant.
[[nodiscard]] inline bool is_plain_capture(const Record& record) {
    return PieceSets(record).has_piece_on(Move{record.move}.to(), (record.flags & kBlackToMove) ^ 1U);
}

}  // namespace sparsepool::chess
