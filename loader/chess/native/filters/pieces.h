#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "chess/native/board/position.h"
#include "chess/native/record.h"

namespace sparsepool::chess {

// The pieces of a record by kind. Bit j of a set: the piece on the j-th occupied square.
class Pieces {
  public:
    using Set = std::uint32_t;

    explicit Pieces(const Record& record) : record_(record) {}

    [[nodiscard]] Set knights() const { return plane(1) & ~plane(2) & ~plane(3); }
    [[nodiscard]] Set bishops() const { return plane(2) & ~plane(1); }
    [[nodiscard]] Set rooks() const { return plane(1) & plane(2); }
    [[nodiscard]] Set queens() const { return plane(3) & ~plane(1); }
    [[nodiscard]] Set kings() const { return plane(1) & plane(3); }
    [[nodiscard]] Set pawns() const { return all() & ~(plane(1) | plane(2) | plane(3)); }
    [[nodiscard]] Set of_colour(unsigned colour) const { return colour == kBlack ? plane(0) : all() & ~plane(0); }

    // Pawn 1, knight 3, bishop 3, rook 5, queen 9.
    [[nodiscard]] int material() const { return material_of(~Set{0}); }
    [[nodiscard]] int material(unsigned colour) const { return material_of(of_colour(colour)); }

    // Knight 1, bishop 1, rook 2, queen 4; 24 at most.
    [[nodiscard]] int phase() const {
        return std::min(std::popcount(knights() | bishops()) + 2 * std::popcount(rooks()) + 4 * std::popcount(queens()),
                        24);
    }

    [[nodiscard]] unsigned king(unsigned colour) const {
        return nth_square(record_.occupied, static_cast<unsigned>(std::countr_zero(kings() & of_colour(colour))));
    }

    // Whether a piece of this colour stands on the square.
    [[nodiscard]] bool is_on(unsigned square, unsigned colour) const {
        const std::uint64_t bit = std::uint64_t{1} << square;
        const Set piece = Set{1} << (count_squares(record_.occupied & (bit - 1)) & 31U);
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

// Whether an enemy piece stands on the move's destination: not en passant.
[[nodiscard]] inline bool takes(const Record& record) {
    return Pieces(record).is_on(Move{record.move}.to(), (record.flags & kBlackToMove) ^ 1U);
}

}  // namespace sparsepool::chess
