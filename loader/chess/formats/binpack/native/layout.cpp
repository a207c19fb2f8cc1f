#include "chess/formats/binpack/native/layout.h"

namespace sparsepool::binpack {

const char* describe(Fault fault) {
    switch (fault) {
        case Fault::kNone: return "no fault";
        case Fault::kTooManyPieces: return "more than 32 pieces";
        case Fault::kBadKings: return "a side has not exactly one king";
        case Fault::kBadPassedPawn: return "more than one pawn to take en passant, or one not on rank 4 or 5";
        case Fault::kBadResult: return "result code 3";
        case Fault::kNotOwnPiece: return "move does not start on an own piece";
        case Fault::kOntoOwnPiece: return "move ends on an own piece";
        case Fault::kTakesKing: return "move takes a king";
        case Fault::kNotAPawn: return "promotion or en passant of a piece that is not a pawn";
        case Fault::kNoPawnToTake: return "en passant without a pawn to take";
        case Fault::kBadCastling: return "castling without king and rook in place and a free way";
        case Fault::kIndexTooLarge: return "index past the last candidate";
        case Fault::kScoreTooLong: return "score of more than 4 groups";
        case Fault::kIllegal: return "a position that no game can have";
        case Fault::kPastTheEnd: return "move text runs past the end of its chunk";
    }
    return "unknown fault";
}

}  // namespace sparsepool::binpack
