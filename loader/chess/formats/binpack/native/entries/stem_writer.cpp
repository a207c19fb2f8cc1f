#include "chess/formats/binpack/native/entries/stem_writer.h"

#include <iterator>

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

// Returns the square of the pawn that has passed over the en-passant square.
unsigned passed_pawn_square(unsigned ep_square) { return ep_square < 32 ? ep_square + 8 : ep_square - 8; }

// Whether a pawn stands where the format marks it as the one that can be taken en passant.
bool can_store_ep_square(const chess::Position& position) {
    const unsigned square = position.ep_square;
    if (square == chess::kNoSquare) return true;
    const unsigned rank = square >> 3;
    if (rank != 2 && rank != 5) return false;
    const unsigned colour = rank == 2 ? chess::kWhite : chess::kBlack;
    const Bitboard pawns = position.pawns() & position.of_colour(colour);
    return (pawns & chess::bit_of(passed_pawn_square(square))) != 0;
}

// Whether each castling right has its rook in the corner, where the format marks it.
bool can_store_castling(const chess::Position& position) {
    struct RightAndCorner {
        unsigned right;
        unsigned corner;
    };
    constexpr RightAndCorner kCorners[] = {
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

// Whether a rook on this square has a castling right. `first`: a1 for White, a8 for Black.
bool has_castling_right(const chess::Position& position, unsigned square, unsigned first) {
    const unsigned rights = first == chess::kA1 ? position.castling & 3U : position.castling >> 2;
    const bool king_side = square == first + chess::kH1 && (rights & chess::kWhiteKingSide) != 0;
    const bool queen_side = square == first + chess::kA1 && (rights & chess::kWhiteQueenSide) != 0;
    return king_side || queen_side;
}

// Returns the code of a piece in a packed position (PackedPiece, or the plain code).
unsigned pack_piece(const chess::Position& position, unsigned code, unsigned square) {
    const bool has_ep_square = position.ep_square != chess::kNoSquare;
    if (has_ep_square && square == passed_pawn_square(position.ep_square)) return kPassedPawn;
    switch (code) {
        case 2 * chess::kRook:
            return has_castling_right(position, square, chess::kA1) ? unsigned{kWhiteRookRight} : code;
        case 2 * chess::kRook + 1:
            return has_castling_right(position, square, chess::kA8) ? unsigned{kBlackRookRight} : code;
        case 2 * chess::kKing + 1: return position.side == chess::kBlack ? unsigned{kBlackKingToMove} : code;
        default: return code;
    }
}

}  // namespace

std::string find_stem_problem(const chess::Entry& entry) {
    if (const char* problem = chess::find_result_problem(entry)) return problem;
    if (entry.ply > kMaxStemPly) return "ply at the start of a chain must be at most 16383";
    if (!can_store_castling(entry.position)) return "castling right without a rook in its corner can't be stored";
    if (!can_store_ep_square(entry.position)) return "en-passant square without a pawn that passed it can't be stored";
    return {};
}

// The layout is that of stem.h.
void append_stem(std::vector<std::uint8_t>& bytes, const chess::Entry& entry) {
    const chess::Position& position = entry.position;
    const Bitboard occupied = position.occupied;
    for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(occupied >> shift));
    std::uint8_t packed[16] = {};
    unsigned index = 0;
    for (Bitboard unwritten = occupied; unwritten != 0; unwritten &= unwritten - 1, ++index) {
        const unsigned square = chess::first_square(unwritten);
        const unsigned code = pack_piece(position, position.code_at(square), square);
        packed[index / 2] = static_cast<std::uint8_t>(packed[index / 2] | code << (4 * (index % 2)));
    }
    bytes.insert(bytes.end(), std::begin(packed), std::end(packed));
    append_big_endian16(bytes, entry.move.word);
    append_big_endian16(bytes, zigzag(entry.score));
    append_big_endian16(bytes, entry.ply | unsigned{zigzag(entry.result)} << 14);
    append_big_endian16(bytes, position.rule50);
}

}  // namespace sparsepool::binpack
