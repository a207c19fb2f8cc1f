#include "chess/native/board/legality.h"

namespace sparsepool::chess {

const char* describe(Illegal illegal) {
    switch (illegal) {
        case Illegal::kNone: return "damaged";
        case Illegal::kKings: return kNotOneKingEach;
        case Illegal::kTooMany: return "a side has more than 8 pawns and promoted pieces";
        case Illegal::kPawns: return "a pawn on the first or last rank";
        case Illegal::kKingsTouch: return "the kings are side by side";
        case Illegal::kCheck: return "the side that is not to move is in check";
        case Illegal::kCastling: return kNoCastling;
        case Illegal::kEnPassant: return kBadEnPassantSquare;
        case Illegal::kMove: return kImpossibleMove;
    }
    return "unknown";
}

Illegal classify_problem(std::string_view problem) {
    for (const Illegal illegal : {Illegal::kKings, Illegal::kCastling, Illegal::kEnPassant, Illegal::kMove}) {
        if (problem == describe(illegal)) return illegal;
    }
    if (problem == kTakesKing || problem == kBlockedCastling) return Illegal::kMove;
    return Illegal::kNone;
}

}  // namespace sparsepool::chess
