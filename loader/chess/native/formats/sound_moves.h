#pragma once

#include "chess/native/board/destinations.h"
#include "chess/native/board/legality.h"
#include "chess/native/board/position.h"
#include "chess/native/board/rules.h"

// Whether a move that data have is one of its piece's, pins and checks ignored: without that a position behind it is
// nonsense, and so is what filters and statistics make of the move.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

[[nodiscard]] inline const char* words_of(MoveFault fault) {
    switch (fault) {
        case MoveFault::kNone: return nullptr;
        case MoveFault::kTakesKing: return kTakesKing;
        case MoveFault::kBadCastling: return kNoWayToCastle;
        default: return kNoPiecesMove;
    }
}

[[nodiscard]] inline const char* play_sound(Position& position, Move move) {
    if (!is_move_of_a_piece(position, move)) [[unlikely]]
        return kNoPiecesMove;
    return words_of(play<Variant::kChess960>(position, move));
}

// What play_sound would give back; the move is not made.
[[nodiscard]] inline const char* why_not_sound(const Position& position, Move move) {
    if (!is_move_of_a_piece(position, move)) [[unlikely]]
        return kNoPiecesMove;
    if (move.type() != MoveType::kCastling) [[likely]]
        return words_of(find_fault(position, move));
    Position next = position;
    return words_of(play_castling960(next, move));
}

// Whether a move takes en passant where the entry's FEN ends before the field that would say that it may.
[[nodiscard, gnu::cold]] inline bool takes_unsaid_en_passant(const Entry& entry) {
    if ((entry.lacks & kEnPassantPart) == 0) return false;
    Position position = entry.position;
    const unsigned to = entry.move.to();
    if (!is_passed_over(position, to)) return false;
    position.ep_square = static_cast<std::uint8_t>(to);
    const Move taken = make_move(MoveType::kEnPassant, entry.move.from(), to);
    return entry.move.type() == MoveType::kNormal && why_not_sound(position, taken) == nullptr;
}

// What is wrong with the move of an entry, in words that meaning_of knows; null if nothing is, or there is no move.
[[nodiscard]] inline const char* find_move_fault(const Entry& entry) {
    if (entry.move.word == 0) return nullptr;
    const char* wrong = why_not_sound(entry.position, entry.move);
    if (wrong == nullptr || takes_unsaid_en_passant(entry)) [[likely]]
        return nullptr;
    return wrong;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
