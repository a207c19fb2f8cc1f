#include "chess/formats/binpack/native/entries/stem_writer.h"

#include <utility>

#include "chess/formats/binpack/native/layout.h"
#include "chess/native/board/rules.h"
#include "chess/native/formats/storable.h"

namespace sparsepool::binpack {
namespace {

using chess::Bitboard;

void append_big_endian16(std::vector<std::uint8_t>& bytes, unsigned value) {
    bytes.push_back(static_cast<std::uint8_t>(value >> 8));
    bytes.push_back(static_cast<std::uint8_t>(value));
}

// The square of the pawn that can be taken on `ep_square`.
unsigned passed_pawn_square(unsigned ep_square) { return ep_square < 32 ? ep_square + 8 : ep_square - 8; }

bool ep_square_fits(const chess::Position& position) {
    const unsigned square = position.ep_square;
    if (square == chess::kNoSquare) return true;
    if (square >> 3 != 2 && square >> 3 != 5) return false;
    const unsigned colour = square < 32 ? chess::kWhite : chess::kBlack;
    const Bitboard pawns = position.pawns() & position.of_colour(colour);
    return (pawns & chess::bit_of(passed_pawn_square(square))) != 0;
}

bool castling_fits(const chess::Position& position) {
    constexpr std::pair<unsigned, unsigned> kCorners[] = {
        {chess::kWhiteKingSide, chess::kH1},
        {chess::kWhiteQueenSide, chess::kA1},
        {chess::kBlackKingSide, chess::kH8},
        {chess::kBlackQueenSide, chess::kA8},
    };
    for (const auto& [right, corner] : kCorners) {
        const unsigned colour = corner >= chess::kA8 ? chess::kBlack : chess::kWhite;
        const Bitboard rooks = position.rooks() & position.of_colour(colour);
        if ((position.castling & right) != 0 && (rooks & chess::bit_of(corner)) == 0) return false;
    }
    return chess::castles_from_corners(position);
}

unsigned packed_code(const chess::Position& position, unsigned code, unsigned square) {
    if (position.ep_square != chess::kNoSquare && square == passed_pawn_square(position.ep_square)) {
        return kPassedPawn;
    }
    const unsigned rights = position.castling;
    if (code == 2 * chess::kRook) {
        const bool held = (square == chess::kA1 && (rights & chess::kWhiteQueenSide) != 0) ||
                          (square == chess::kH1 && (rights & chess::kWhiteKingSide) != 0);
        return held ? unsigned{kWhiteRookRight} : code;
    }
    if (code == 2 * chess::kRook + 1) {
        const bool held = (square == chess::kA8 && (rights & chess::kBlackQueenSide) != 0) ||
                          (square == chess::kH8 && (rights & chess::kBlackKingSide) != 0);
        return held ? unsigned{kBlackRookRight} : code;
    }
    if (code == 2 * chess::kKing + 1 && position.side == chess::kBlack) return kBlackKingToMove;
    return code;
}

}  // namespace

std::string find_stem_problem(const chess::Entry& entry) {
    if (const char* wrong = chess::find_result_problem(entry)) return wrong;
    if (entry.ply > kMaxStemPly) return "ply at the start of a chain must be at most 16383";
    if (!castling_fits(entry.position)) return "castling right without a rook in its corner can't be stored";
    if (!ep_square_fits(entry.position)) return "en-passant square without a pawn that passed it can't be stored";
    return {};
}

void append_stem(std::vector<std::uint8_t>& bytes, const chess::Entry& entry) {
    const chess::Position& position = entry.position;
    const Bitboard occupied = position.occupied;
    for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(occupied >> shift));
    std::uint8_t packed[16] = {};
    unsigned index = 0;
    for (Bitboard rest = occupied; rest != 0; rest &= rest - 1, ++index) {
        const unsigned square = chess::first_square(rest);
        const unsigned code = packed_code(position, position.code_at(square), square);
        packed[index / 2] = static_cast<std::uint8_t>(packed[index / 2] | code << (4 * (index % 2)));
    }
    bytes.insert(bytes.end(), std::begin(packed), std::end(packed));
    append_big_endian16(bytes, entry.move.word);
    append_big_endian16(bytes, zigzag(entry.score));
    append_big_endian16(bytes, entry.ply | unsigned{zigzag(entry.result)} << 14);
    append_big_endian16(bytes, position.rule50);
}

}  // namespace sparsepool::binpack
