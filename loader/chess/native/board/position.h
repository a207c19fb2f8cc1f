#pragma once

#include <cstdint>

#include "chess/native/board/bitboard.h"

// A position and a move as plain data; chess/rules.h plays them. Functions here are inlined always: they are
// shared by the builds for all instruction sets (bitboard.h), and the linker must have none to choose from.
namespace sparsepool::chess {

enum Colour : std::uint8_t { kWhite = 0, kBlack = 1 };

enum PieceType : std::uint8_t { kPawn, kKnight, kBishop, kRook, kQueen, kKing };

enum CastlingRight : std::uint8_t {
    kWhiteKingSide = 1,
    kWhiteQueenSide = 2,
    kBlackKingSide = 4,
    kBlackQueenSide = 8,
};

enum Corner : std::uint8_t { kA1 = 0, kE1 = 4, kH1 = 7, kA8 = 56, kE8 = 60, kH8 = 63 };

inline constexpr std::uint8_t kNoSquare = 64;
inline constexpr std::uint16_t kCornerRooks = 00707;  // Position::rook_files of normal chess: q, k, Q, K

// The board as bit planes: a piece code is 2 * type + colour (record.h), plane i holds bit i of the codes. Moving
// a piece is then a handful of ands and ors without a branch, and there is no list of pieces to keep in order: a
// record's list is the planes with the empty squares squeezed out.
struct Position {
    Bitboard occupied = 0;
    Bitboard planes[4] = {};             // zero on empty squares
    std::uint8_t side = kWhite;          // to move
    std::uint8_t castling = 0;           // CastlingRight, as announced: king and rook may be elsewhere
    std::uint8_t ep_square = kNoSquare;  // only if an en-passant capture is legal, or as a file says
    bool chess960 = false;               // the game castles as Chess960 does, which its later positions may not show
    std::uint16_t rule50 = 0;            // half-moves since a pawn move or capture; 65535: that and more
    // Three bits for each CastlingRight, the first lowest: the file of its rook. Others than these are of Chess960.
    std::uint16_t rook_files = kCornerRooks;

    // The square of the rook of CastlingRight 1 << bit.
    [[nodiscard, gnu::always_inline]] unsigned castling_rook_square(unsigned bit) const {
        return (rook_files >> (3 * bit) & 7U) + (bit < 2 ? 0U : 56U);
    }
    [[gnu::always_inline]] void set_castling_rook_file(unsigned bit, unsigned file) {
        rook_files = static_cast<std::uint16_t>((rook_files & ~(7U << (3 * bit))) | file << (3 * bit));
    }

    [[nodiscard, gnu::always_inline]] Bitboard of_colour(unsigned colour) const {
        return occupied & (planes[0] ^ (Bitboard{colour} - 1));
    }
    [[nodiscard, gnu::always_inline]] Bitboard pawns() const { return occupied & ~(planes[1] | planes[2] | planes[3]); }
    [[nodiscard, gnu::always_inline]] Bitboard knights() const { return planes[1] & ~planes[2] & ~planes[3]; }
    [[nodiscard, gnu::always_inline]] Bitboard rooks() const { return planes[1] & planes[2]; }
    [[nodiscard, gnu::always_inline]] Bitboard kings() const { return planes[1] & planes[3]; }
    // Rooks and queens; bishops and queens.
    [[nodiscard, gnu::always_inline]] Bitboard orthogonal_sliders() const { return rooks() | (planes[3] & ~planes[1]); }
    [[nodiscard, gnu::always_inline]] Bitboard diagonal_sliders() const { return (planes[2] | planes[3]) & ~planes[1]; }

    [[nodiscard, gnu::always_inline]] unsigned code_at(unsigned square) const {
        return static_cast<unsigned>((planes[0] >> square & 1) | (planes[1] >> square & 1) << 1 |
                                     (planes[2] >> square & 1) << 2 | (planes[3] >> square & 1) << 3);
    }

    [[nodiscard, gnu::always_inline]] unsigned type_at(unsigned square) const {
        return static_cast<unsigned>((planes[1] >> square & 1) + 2 * (planes[2] >> square & 1) +
                                     4 * (planes[3] >> square & 1));
    }

    [[gnu::always_inline]] void remove_pieces(Bitboard squares) {
        occupied &= ~squares;
        for (Bitboard& plane : planes) plane &= ~squares;
    }

    // Moves the piece on `from` to `to`. `cleared` are the squares to empty before: both of these, and that of a pawn
    // taken en passant. Works on the planes, whatever the piece is; with AVX2 on all four in one register, which makes
    // decoding 7 % faster.
    [[gnu::always_inline]] void move_piece(unsigned from, unsigned to, Bitboard cleared) {
        occupied = (occupied & ~cleared) | Bitboard{1} << to;
#if defined(__AVX2__)
        const __m256i old = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(planes));
        const __m256i bits =
            _mm256_and_si256(_mm256_srl_epi64(old, _mm_cvtsi32_si128(static_cast<int>(from))), _mm256_set1_epi64x(1));
        const __m256i others = _mm256_andnot_si256(_mm256_set1_epi64x(static_cast<long long>(cleared)), old);
        const __m256i moved = _mm256_sll_epi64(bits, _mm_cvtsi32_si128(static_cast<int>(to)));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(planes), _mm256_or_si256(others, moved));
#else
        for (Bitboard& plane : planes) plane = (plane & ~cleared) | (plane >> from & 1) << to;
#endif
    }

    // Puts a piece on an empty square, which is given as a bitboard.
    [[gnu::always_inline]] void put_piece(Bitboard square, unsigned code) {
        occupied |= square;
        for (unsigned i = 0; i < 4; ++i) planes[i] |= square & -Bitboard{code >> i & 1};
    }
};

// Whether the rooks of all castling rights are in the corners, as in normal chess.
[[nodiscard, gnu::always_inline]] inline bool castles_from_corners(const Position& position) {
    constexpr std::uint16_t kFileBits[] = {07, 070, 0700, 07000};  // of Position::rook_files, by right
    unsigned used_bits = 0;
    for (unsigned bit = 0; bit < 4; ++bit) used_bits |= (position.castling >> bit & 1U) != 0 ? kFileBits[bit] : 0U;
    return ((position.rook_files ^ kCornerRooks) & used_bits) == 0;
}

// Whether a position with castling rights must be of Chess960: a king off the e-file, or a rook out of its corner.
[[nodiscard, gnu::always_inline]] inline bool implies_chess960(const Position& position) {
    constexpr Bitboard kFileE = 0x1010101010101010;
    const bool white = (position.castling & 3U) != 0 && (position.kings() & position.of_colour(kWhite) & kFileE) == 0;
    const bool black = (position.castling & 12U) != 0 && (position.kings() & position.of_colour(kBlack) & kFileE) == 0;
    return white || black || !castles_from_corners(position);
}

enum class MoveType : std::uint8_t { kNormal, kPromotion, kCastling, kEnPassant };

// A move as a binpack stores it: type << 14 | from << 8 | to << 2 | promotion (knight, bishop, rook, queen).
// Castling is written as 'king takes own rook'. The word 0 is the null move.
struct Move {
    std::uint16_t word = 0;

    [[nodiscard, gnu::always_inline]] constexpr MoveType type() const { return static_cast<MoveType>(word >> 14); }
    [[nodiscard, gnu::always_inline]] constexpr unsigned from() const { return (word >> 8) & 63U; }
    [[nodiscard, gnu::always_inline]] constexpr unsigned to() const { return (word >> 2) & 63U; }
    [[nodiscard, gnu::always_inline]] constexpr PieceType promotion() const {
        return static_cast<PieceType>(kKnight + (word & 3U));
    }
};

[[nodiscard, gnu::always_inline]] inline constexpr Move encode_move(MoveType type, unsigned from, unsigned to,
                                                                    unsigned promotion = 0) {
    return Move{static_cast<std::uint16_t>(static_cast<unsigned>(type) << 14 | from << 8 | to << 2 | promotion)};
}

// What a format may not know of an entry. Then the entry has what a FEN of only a board gives: no castling rights, no
// en-passant square, a clock or ply of 0.
enum EntryPart : std::uint8_t { kRightsPart = 1, kEnPassantPart = 2, kClockPart = 4, kPlyPart = 8 };

// An entry of training data: a position and the move recorded in it.
// Score and result are from the side to move's point of view.
struct Entry {
    Position position;
    Move move;
    std::int16_t score = 0;          // or kNoScore (record.h)
    std::uint16_t ply = 0;           // 65535: that and more
    std::int8_t result = 0;          // or kNoResult
    std::uint8_t missing_parts = 0;  // mask of EntryPart
};

// Returns the next count; 65535 stays.
[[nodiscard, gnu::always_inline]] inline std::uint16_t saturating_increment(std::uint16_t count) {
    return static_cast<std::uint16_t>(count + (count != 65535 ? 1 : 0));
}

}  // namespace sparsepool::chess
