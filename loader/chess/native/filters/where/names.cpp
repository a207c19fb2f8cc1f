#include "chess/native/filters/where/names.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "chess/native/board/position.h"
#include "chess/native/filters/pieces.h"

namespace sparsepool::chess::where {
namespace {

// Loads the value kValue(record) of each record.
template <auto kValue>
void load_each(std::span<const Record> records, double* values) {
    for (const Record& record : records) *values++ = static_cast<double>(kValue(record));
}

MoveType move_type(const Record& record) { return Move{record.move}.type(); }

bool is_capture(const Record& record) {
    return record.move != 0 && (is_plain_capture(record) || move_type(record) == MoveType::kEnPassant);
}

unsigned mover(const Record& record) { return record.flags & kBlackToMove; }

// Returns a king's square as the side to move sees the board.
unsigned king_in_mover_view(const Record& record, unsigned colour) {
    return PieceSets(record).king(colour) ^ (mover(record) != 0 ? 56U : 0U);
}

// Returns the castling rights of a colour: bit 0 short castling, bit 1 long castling.
unsigned castling_rights(const Record& record, unsigned colour) {
    return record.flags >> (kRightsShift + 2 * colour) & 3U;
}

constexpr auto kNumber = Type::kNumber;
constexpr auto kCondition = Type::kCondition;
constexpr std::string_view kEveryFormat, kMovePart = "move", kPlyPart = "ply", kSidePart = "side to move",
                                         kRightsPart = "castling rights", kClockPart = "half-move clock";

constexpr std::array kNames = std::to_array<Name>({
    {"ply", kNumber, kPlyPart, "half-moves since the start of the game",
     load_each<[](const Record& record) { return record.ply; }>},
    {"score", kNumber, kEveryFormat, "as the side to move sees it, in the file's unit; 32002 for none",
     load_each<[](const Record& record) { return record.score; }>},
    {"result", kNumber, kEveryFormat, "of the game for the side to move: -1, 0, 1; -128 for none",
     load_each<[](const Record& record) { return record.result(); }>},
    {"piece_count", kNumber, kEveryFormat, "pieces and pawns of both sides, kings included",
     load_each<[](const Record& record) { return count_squares(record.occupied); }>},
    {"pawns", kNumber, kEveryFormat, "of both sides",
     load_each<[](const Record& record) { return std::popcount(PieceSets(record).pawns()); }>},
    {"knights", kNumber, kEveryFormat, "of both sides",
     load_each<[](const Record& record) { return std::popcount(PieceSets(record).knights()); }>},
    {"bishops", kNumber, kEveryFormat, "of both sides",
     load_each<[](const Record& record) { return std::popcount(PieceSets(record).bishops()); }>},
    {"rooks", kNumber, kEveryFormat, "of both sides",
     load_each<[](const Record& record) { return std::popcount(PieceSets(record).rooks()); }>},
    {"queens", kNumber, kEveryFormat, "of both sides",
     load_each<[](const Record& record) { return std::popcount(PieceSets(record).queens()); }>},
    {"material", kNumber, kEveryFormat, "of both sides: pawn 1, knight 3, bishop 3, rook 5, queen 9",
     load_each<[](const Record& record) { return PieceSets(record).material(); }>},
    {"own_material", kNumber, kEveryFormat, "of the side to move",
     load_each<[](const Record& record) { return PieceSets(record).material(mover(record)); }>},
    {"opponent_material", kNumber, kEveryFormat, "of the other side",
     load_each<[](const Record& record) { return PieceSets(record).material(mover(record) ^ 1U); }>},
    {"phase", kNumber, kEveryFormat,
     "24 at the start, 0 without pieces: knight 1, bishop 1, rook 2, queen 4; at most 24",
     load_each<[](const Record& record) { return PieceSets(record).phase(); }>},
    {"own_king", kNumber, kEveryFormat, "square of the king to move, as its side sees the board: a1 0, h1 7, h8 63",
     load_each<[](const Record& record) { return king_in_mover_view(record, mover(record)); }>},
    {"opponent_king", kNumber, kEveryFormat, "square of the other king, as the side to move sees the board",
     load_each<[](const Record& record) { return king_in_mover_view(record, mover(record) ^ 1U); }>},
    {"white_king", kNumber, kSidePart, "square of White's king",
     load_each<[](const Record& record) { return PieceSets(record).king(kWhite); }>},
    {"black_king", kNumber, kSidePart, "square of Black's king",
     load_each<[](const Record& record) { return PieceSets(record).king(kBlack); }>},
    {"white_to_move", kCondition, kSidePart, "White is to move",
     load_each<[](const Record& record) { return mover(record) == kWhite; }>},
    {"has_score", kCondition, kEveryFormat, "there is a score",
     load_each<[](const Record& record) { return record.score != kNoScore; }>},
    {"has_result", kCondition, kEveryFormat, "there is a result",
     load_each<[](const Record& record) { return record.result() != kNoResult; }>},
    {"in_check", kCondition, kEveryFormat, "the side to move is in check",
     load_each<[](const Record& record) { return (record.flags & kInCheck) != 0; }>},
    {"castling_rights", kNumber, kRightsPart, "how many are left, of both sides: 0 to 4",
     load_each<[](const Record& record) { return std::popcount(record.flags >> kRightsShift & 15U); }>},
    {"can_castle_short", kCondition, kRightsPart, "the side to move has the right to castle on the h side",
     load_each<[](const Record& record) { return (castling_rights(record, mover(record)) & 1U) != 0; }>},
    {"can_castle_long", kCondition, kRightsPart, "the side to move has the right to castle on the a side",
     load_each<[](const Record& record) { return (castling_rights(record, mover(record)) & 2U) != 0; }>},
    {"opponent_can_castle_short", kCondition, kRightsPart, "the other side has the right to castle on the h side",
     load_each<[](const Record& record) { return (castling_rights(record, mover(record) ^ 1U) & 1U) != 0; }>},
    {"opponent_can_castle_long", kCondition, kRightsPart, "the other side has the right to castle on the a side",
     load_each<[](const Record& record) { return (castling_rights(record, mover(record) ^ 1U) & 2U) != 0; }>},
    {"clock", kNumber, kClockPart, "half-moves since a pawn move or capture; 127 for that and more",
     load_each<[](const Record& record) { return record.clock(); }>},
    {"is_capture", kCondition, kMovePart, "the move takes something, also en passant", load_each<is_capture>},
    {"is_en_passant", kCondition, kMovePart, "the move takes en passant",
     load_each<[](const Record& record) { return move_type(record) == MoveType::kEnPassant; }>},
    {"is_promotion", kCondition, kMovePart, "the move promotes",
     load_each<[](const Record& record) { return move_type(record) == MoveType::kPromotion; }>},
    {"is_castling", kCondition, kMovePart, "the move castles",
     load_each<[](const Record& record) { return move_type(record) == MoveType::kCastling; }>},
});

}  // namespace

std::span<const Name> names() { return kNames; }

}  // namespace sparsepool::chess::where
