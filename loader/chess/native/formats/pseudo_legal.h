#pragma once

#include "chess/native/board/destinations.h"
#include "chess/native/board/legality.h"
#include "chess/native/board/position.h"
#include "chess/native/board/rules.h"

// Checks that a recorded move is pseudo-legal: one of its piece, pins and checks ignored. After any other move the
// position would be nonsense, and so would be what filters and statistics compute from the move. Castling as Chess960
// has it.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

// Returns the problem as one that classify_problem knows; null for kNone.
[[nodiscard]] inline const char* describe(MoveFault fault) {
    switch (fault) {
        case MoveFault::kNone: return nullptr;
        case MoveFault::kTakesKing: return kTakesKing;
        case MoveFault::kBadCastling: return kBlockedCastling;
        default: return kImpossibleMove;
    }
}

// Plays a move that must be pseudo-legal. Returns why it is not, or null.
[[nodiscard]] inline const char* play_pseudo_legal(Position& position, Move move) {
    if (!is_pseudo_legal_or_castling(position, move)) [[unlikely]]
        return kImpossibleMove;
    return describe(play<Variant::kChess960>(position, move));
}

// Returns what play_pseudo_legal would return, without playing the move.
[[nodiscard]] inline const char* find_pseudo_legality_problem(const Position& position, Move move) {
    if (!is_pseudo_legal_or_castling(position, move)) [[unlikely]]
        return kImpossibleMove;
    if (move.type() != MoveType::kCastling) [[likely]]
        return describe(check_move(position, move));
    Position next = position;
    return describe(play_castling960(next, move));
}

// Whether the move takes en passant in a position whose FEN ends before the en-passant field.
[[nodiscard, gnu::cold]] inline bool is_undeclared_en_passant(const Entry& entry) {
    if ((entry.missing_parts & kEnPassantPart) == 0) return false;
    Position position = entry.position;
    const unsigned to = entry.move.to();
    if (!is_possible_ep_square(position, to)) return false;
    position.ep_square = static_cast<std::uint8_t>(to);
    const Move en_passant = encode_move(MoveType::kEnPassant, entry.move.from(), to);
    return entry.move.type() == MoveType::kNormal && find_pseudo_legality_problem(position, en_passant) == nullptr;
}

// Returns what is wrong with the move of an entry, as a problem that classify_problem knows. Null if nothing is wrong
// or there is no move.
[[nodiscard]] inline const char* find_move_problem(const Entry& entry) {
    if (entry.move.word == 0) return nullptr;
    const char* problem = find_pseudo_legality_problem(entry.position, entry.move);
    if (problem == nullptr || is_undeclared_en_passant(entry)) [[likely]]
        return nullptr;
    return problem;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
