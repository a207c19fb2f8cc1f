#include "chess/native/board/legality.h"

namespace sparsepool::chess {

const char* words_of(Illegal illegal) {
    switch (illegal) {
        case Illegal::kNone: return "damaged";
        case Illegal::kKings: return kNotOneKingEach;
        case Illegal::kTooMany: return "a side has more than 8 pawns and promoted pieces";
        case Illegal::kPawns: return "a pawn on the first or last rank";
        case Illegal::kKingsTouch: return "the kings are side by side";
        case Illegal::kCheck: return "the side that is not to move is in check";
        case Illegal::kCastling: return kNoCastling;
        case Illegal::kEnPassant: return kNotPassed;
        case Illegal::kMove: return kNoPiecesMove;
    }
    return "unknown";
}

Illegal meaning_of(std::string_view words) {
    for (const Illegal illegal : {Illegal::kKings, Illegal::kCastling, Illegal::kEnPassant, Illegal::kMove}) {
        if (words == words_of(illegal)) return illegal;
    }
    const bool is_of_move = words == kTakesKing || words == kNoWayToCastle;
    return is_of_move ? Illegal::kMove : Illegal::kNone;
}

}  // namespace sparsepool::chess
