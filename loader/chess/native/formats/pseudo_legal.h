#pragma once

#include "chess/native/board/destinations.h"
#include "chess/native/board/legality.h"
#include "chess/native/board/position.h"
#include "chess/native/board/rules.h"

// Whether a move that data have is one of its piece's, pins and checks ignored: without that a position behind it is
// nonsense, and so is what filters and statistics make of the move.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

[[nodiscard]] inline const char* describe(MoveFault fault) {
    switch (fault) {
        case MoveFault::kNone: return nullptr;
        case MoveFault::kTakesKing: return kTakesKing;
        case MoveFault::kBadCastling: return kBlockedCastling;
        default: return kImpossibleMove;
    }
}

[[nodiscard]] inline const char* play_pseudo_legal(Position& position, Move move) {
    if (!is_pseudo_legal_or_castling(position, move)) [[unlikely]]
        return kImpossibleMove;
    return describe(play<Variant::kChess960>(position, move));
}

// What play_pseudo_legal would give back; the move is not made.
[[nodiscard]] inline const char* find_pseudo_legality_problem(const Position& position, Move move) {
    if (!is_pseudo_legal_or_castling(position, move)) [[unlikely]]
        return kImpossibleMove;
    if (move.type() != MoveType::kCastling) [[likely]]
        return describe(check_move(position, move));
    Position next = position;
    return describe(play_castling960(next, move));
}

// Whether a move takes en passant where the entry's FEN ends before the field that would say that it may.
[[nodiscard, gnu::cold]] inline bool is_undeclared_en_passant(const Entry& entry) {
    if ((entry.missing_parts & kEnPassantPart) == 0) return false;
    Position position = entry.position;
    const unsigned to = entry.move.to();
    if (!is_possible_ep_square(position, to)) return false;
    position.ep_square = static_cast<std::uint8_t>(to);
    const Move taken = encode_move(MoveType::kEnPassant, entry.move.from(), to);
    return entry.move.type() == MoveType::kNormal && find_pseudo_legality_problem(position, taken) == nullptr;
}

// What is wrong with the move of an entry, in words that classify_problem knows; null if nothing is, or there is no
// move.
[[nodiscard]] inline const char* find_move_problem(const Entry& entry) {
    if (entry.move.word == 0) return nullptr;
    const char* wrong = find_pseudo_legality_problem(entry.position, entry.move);
    if (wrong == nullptr || is_undeclared_en_passant(entry)) [[likely]]
        return nullptr;
    return wrong;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
