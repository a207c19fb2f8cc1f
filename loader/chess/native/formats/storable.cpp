#include "chess/native/formats/storable.h"

#include <algorithm>
#include <iterator>

#include "chess/native/board/destinations.h"
#include "chess/native/board/legality.h"
#include "chess/native/formats/record_walk.h"

namespace sparsepool::chess {

unsigned capturable_ep_square(const Position& position) {
    const unsigned square = position.ep_square;
    if (square == kNoSquare) return kNoSquare;
    const unsigned pawn_square = position.side == kWhite ? square - 8 : square + 8;
    const bool is_capturable = pawn_square < 64 && en_passant_possible(position, square, pawn_square);
    return is_capturable ? square : kNoSquare;
}

// Three bits for each castling right, as in Position::rook_files.
std::uint16_t active_rook_files(const Position& position) {
    std::uint16_t files = 0;
    for (unsigned bit = 0; bit < 4; ++bit) {
        if ((position.castling >> bit & 1U) == 0) continue;
        files = static_cast<std::uint16_t>(files | (position.castling_rook_square(bit) & 7U) << (3 * bit));
    }
    return files;
}

const char* find_castling_problem(const Position& position) {
    return position.castling != 0 && has_castling_right_without_pieces(position) ? kNoCastling : nullptr;
}

const char* find_en_passant_problem(const Position& position) {
    if (position.ep_square == kNoSquare || is_possible_ep_square(position, position.ep_square)) return nullptr;
    return "an en-passant square without a pawn that passed it can't be stored";
}

const char* find_stored_move_problem(const Entry& entry) {
    if (entry.move.word == 0) return "the format needs the move that was played";
    Position next = entry.position;
    const bool can_be_played = is_pseudo_legal_or_castling(entry.position, entry.move) &&
                               play<Variant::kChess960>(next, entry.move) == MoveFault::kNone;
    return can_be_played ? nullptr : "the format can't hold a move that the position does not allow";
}

const char* find_result_problem(const Entry& entry) {
    if (entry.result != kNoResult) return nullptr;
    return "the format has no room for an entry without a result: loader filter --where has_result leaves such out";
}

const char* to_white_score(const Entry& entry, std::int16_t& white_score) {
    return convert_score_view(entry.score, entry.position.side, white_score) ? nullptr : kBadScore;
}

Position position_after(const Entry& entry) {
    Position next = entry.position;
    (void)play<Variant::kChess960>(next, entry.move);
    return next;
}

bool are_equal(const Position& a, const Position& b) {
    return a.occupied == b.occupied && std::ranges::equal(a.planes, b.planes) && a.side == b.side &&
           a.castling == b.castling && active_rook_files(a) == active_rook_files(b) &&
           capturable_ep_square(a) == capturable_ep_square(b);
}

}  // namespace sparsepool::chess
