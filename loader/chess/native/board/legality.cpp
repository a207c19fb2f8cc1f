#include "chess/native/board/legality.h"

#include <algorithm>

namespace sparsepool::chess {

const char* words_of(Illegal illegal) {
    switch (illegal) {
        case Illegal::kNone: return "nothing";
        case Illegal::kKings: return kNotOneKingEach;
        case Illegal::kTooMany: return "a side has more than 8 pawns and promoted pieces";
        case Illegal::kPawns: return "a pawn on the first or last rank";
        case Illegal::kKingsTouch: return "the kings are side by side";
        case Illegal::kCheck: return "the side that is not to move is in check";
        case Illegal::kCastling: return kNoCastling;
        case Illegal::kEnPassant: return kNotPassed;
    }
    return "unknown";
}

Illegal meaning_of(const char* words) {
    if (words == kNotOneKingEach) return Illegal::kKings;
    if (words == kNoCastling) return Illegal::kCastling;
    return words == kNotPassed ? Illegal::kEnPassant : Illegal::kNone;
}

void IllegalTally::add(Illegal illegal, std::uint64_t offset, std::uint64_t unit, std::uint64_t count) {
    Kind& kind = kinds[static_cast<std::size_t>(illegal)];
    if (kind.count == 0) {
        kind.offset = offset;
        kind.unit = unit;
    }
    kind.count += count;
}

const IllegalTally::Kind* IllegalTally::first() const {
    const Kind* first = nullptr;
    for (const Kind& kind : kinds) {
        if (kind.count != 0 && (first == nullptr || kind.offset < first->offset)) first = &kind;
    }
    return first;
}

std::string IllegalTally::describe() const {
    std::string words;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
        if (kinds[i].count == 0) continue;
        words += (words.empty() ? "" : ", ") + std::to_string(kinds[i].count) + " (" +
                 words_of(static_cast<Illegal>(i)) + ")";
    }
    return words;
}

}  // namespace sparsepool::chess
