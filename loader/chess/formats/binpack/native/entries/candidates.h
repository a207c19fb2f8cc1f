#pragma once

#include "chess/formats/binpack/native/layout.h"
#include "chess/native/board/destinations.h"
#include "chess/native/board/rules.h"

// What the indices of the move text count: own pieces, and the pseudo-legal destinations of each.
namespace sparsepool::binpack {

using chess::Bitboard;

inline namespace SPARSEPOOL_ISA {

// Returns the castling rights of the side to move: bit 0 king-side, bit 1 queen-side.
[[nodiscard]] inline unsigned own_castling(const chess::Position& position) {
    return (position.castling >> (2 * position.side)) & 3U;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::binpack
