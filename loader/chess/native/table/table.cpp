#include "chess/native/table/table.h"

#include <cstdlib>

#include "chess/native/board/fen.h"
#include "chess/native/board/legality.h"
#include "chess/native/formats/pseudo_legal.h"

namespace sparsepool::chess {
namespace {

constexpr unsigned kMaxPieces = 32;

// These fill a part of an entry from a row. They return what is wrong, or an empty text.

std::string fill_board(const Row& row, Position& position) {
    for (unsigned square = 0; square < 64; ++square) {
        const std::int8_t piece = row.board[square];
        if (piece == 0) continue;
        if (piece < -6 || piece > 6) return "a piece must be -6 to 6, not " + std::to_string(piece);
        if (count_squares(position.occupied) == kMaxPieces) return "more than 32 pieces";
        const auto type = static_cast<unsigned>(std::abs(piece)) - 1U;
        const unsigned colour = piece < 0 ? kBlack : kWhite;
        position.put_piece(bit_of(square), 2U * type + colour);
    }
    return has_one_king_each(position) ? std::string{} : kNotOneKingEach;
}

std::string fill_castling(const Row& row, Position& position) {
    for (unsigned bit = 0; bit < 4; ++bit) {
        const unsigned rook = row.castling[bit];
        if (rook == kNoSquare) continue;
        const unsigned first_rank = bit < 2 ? 0U : 7U;
        if (rook >> 3 != first_rank) return "castling must be squares of the first rank, or 64";
        position.castling = static_cast<std::uint8_t>(position.castling | 1U << bit);
        position.set_castling_rook_file(bit, rook & 7U);
    }
    position.chess960 = implies_chess960(position);
    return {};
}

std::string fill_state(const Row& row, Position& position) {
    if (row.side_to_move > 1) return "side_to_move must be 0 or 1";
    position.side = row.side_to_move;
    std::string problem = fill_castling(row, position);
    if (!problem.empty()) return problem;
    if (row.en_passant > kNoSquare) return "en_passant must be a square, or 64";
    position.ep_square = row.en_passant;
    position.rule50 = row.clock;
    return {};
}

std::string fill_move(const Row& row, const Position& position, Move& move) {
    if (row.move_from == kNoSquare && row.move_to == kNoSquare) return {};
    if (row.move_from >= kNoSquare || row.move_to >= kNoSquare) return "a move has two squares, or is 64 and 64";
    if (row.promotion == 0) {
        move = resolve_move(position, row.move_from, row.move_to);
        return {};
    }
    if (row.promotion < 2 || row.promotion > 5) return "promotion must be 0, or 2 to 5";
    move = encode_move(MoveType::kPromotion, row.move_from, row.move_to, row.promotion - 2U);
    return {};
}

}  // namespace

// Pieces are 1 to 6 for White and -1 to -6 for Black.
Row to_row(const Entry& entry) {
    const Position& position = entry.position;
    const Move move = entry.move;
    Row row;
    for (Bitboard pieces = position.occupied; pieces != 0; pieces &= pieces - 1) {
        const unsigned square = first_square(pieces);
        const int piece = static_cast<int>(position.type_at(square)) + 1;
        const bool is_black = (position.planes[0] >> square & 1) != 0;
        row.board[square] = static_cast<std::int8_t>(is_black ? -piece : piece);
    }
    for (unsigned bit = 0; bit < 4; ++bit) {
        const bool has_right = (position.castling >> bit & 1U) != 0;
        row.castling[bit] = static_cast<std::uint8_t>(has_right ? position.castling_rook_square(bit) : kNoSquare);
    }
    row.score = entry.score;
    row.ply = entry.ply;
    row.result = entry.result;
    row.side_to_move = position.side;
    row.en_passant = position.ep_square;
    row.clock = position.rule50;
    if (move.word == 0) return row;
    row.move_from = static_cast<std::uint8_t>(move.from());
    row.move_to = static_cast<std::uint8_t>(move.to());
    if (move.type() == MoveType::kPromotion) row.promotion = static_cast<std::uint8_t>(move.promotion() + 1);
    return row;
}

// The move must be pseudo-legal.
std::string to_entry(const Row& row, Entry& entry) {
    entry = Entry{};
    entry.score = row.score;
    entry.ply = row.ply;
    entry.result = row.result;
    std::string problem = fill_board(row, entry.position);
    if (problem.empty()) problem = fill_state(row, entry.position);
    if (problem.empty()) problem = fill_move(row, entry.position, entry.move);
    if (!problem.empty()) return problem;
    if (const char* move_problem = find_move_problem(entry)) return move_problem;
    const bool has_valid_result = row.result == kNoResult || (row.result >= -1 && row.result <= 1);
    return has_valid_result ? std::string() : "result must be -1, 0 or 1, or -128 for none";
}

}  // namespace sparsepool::chess
