#pragma once

#include <cstdint>

#include "chess/native/files/walk.h"
#include "chess/native/formats/games.h"
#include "chess/native/formats/marlin_record.h"
#include "chess/native/formats/storable.h"

namespace sparsepool::chess {
class Codec;
}

// A game of montyvalue: a header of 43 bytes, then moves with scores (games.h). Numbers are little-endian.
//
//     0  black pieces (u64 squares, as the next three)
//     8  rooks, queens, kings    16  knights, bishops, kings    24  pawns, bishops, queens
//    32  side to move, 1 black   33  en-passant square, 0 none  34  castling rights: 8 Q, 4 K, 2 q, 1 k
//    35  halfmove clock          36  u16 move number, 0 unknown
//    38  files of the castling rooks of Q, K, q, k; all 0: the corners          42  result, 0 to 2, White's
//
// A move is from << 10 | to << 4 | flag. Castling goes to the king's square.
namespace sparsepool::montyvalue {

enum Flag : std::uint8_t { kQuiet, kDoublePush, kKingSide, kQueenSide, kCapture, kEnPassant, kPromotion = 8 };

// Bit numbers of castling rights (Position::castling) in the order of the header: Q, K, q, k.
inline constexpr unsigned kRightOrder[] = {1, 0, 3, 2};

inline namespace SPARSEPOOL_ISA {

struct Game {
    static constexpr std::size_t kHeader = 43;

    // Decodes a header. `white_result` is -1, 0 or 1. Returns what is wrong, or null.
    [[nodiscard]] static const char* read_header(const std::uint8_t* bytes, unsigned required_parts,
                                                 chess::Entry& entry, std::int8_t& white_result) {
        chess::Position& position = entry.position;
        position = chess::Position{};
        if (const char* problem = read_pieces(bytes, position)) return problem;
        const std::uint8_t side = bytes[32];
        if (side > 1) return "the side to move is not 0 or 1";
        position.side = side;
        if (const char* problem = read_ep_square(bytes[33], position)) return problem;
        if (const char* problem = read_castling_rights(bytes, position)) return problem;
        position.rule50 = bytes[35];
        const auto move_number = chess::load<std::uint16_t>(bytes + 36);
        if (const char* problem = chess::find_move_number_problem(move_number, required_parts)) return problem;
        entry.ply = chess::ply_of(move_number, position.side);
        entry.missing_parts = move_number == 0 ? chess::kPlyPart : 0;
        const std::uint8_t result = bytes[42];
        if (result > 2) return "the result is not 0, 1 or 2";
        white_result = static_cast<std::int8_t>(result - 1);
        return nullptr;
    }

    // Decodes a move. Its flags repeat what the position shows, and must agree with that. Returns what is wrong, or
    // null.
    [[nodiscard]] static const char* read_move(std::uint16_t word, const chess::Position& position, chess::Move& move) {
        const unsigned from = word >> 10;
        const unsigned to = word >> 4 & 63U;
        const unsigned flag = word & 15U;
        switch (flag) {
            case kKingSide:
            case kQueenSide: return read_castling(from, to, flag, position, move);
            case 6:
            case 7: return "no move has the flags 6 and 7";
            default: break;
        }
        const bool promotes = flag >= kPromotion;
        chess::MoveType type = promotes ? chess::MoveType::kPromotion : chess::MoveType::kNormal;
        if (flag == kEnPassant) type = chess::MoveType::kEnPassant;
        move = chess::encode_move(type, from, to, promotes ? flag & 3U : 0U);
        const bool says_capture = (flag & kCapture) != 0 && flag != kEnPassant;
        const bool is_capture = (position.occupied >> to & 1) != 0;
        if (says_capture != is_capture) return "a move's flag for captures is wrong";
        const bool says_double_push = flag == kDoublePush;
        const bool is_pawn = (position.pawns() >> from & 1) != 0;
        const bool is_double_push = is_pawn && (from ^ to) == 16;  // two ranks
        return says_double_push == is_double_push ? nullptr : "a move's flag for double pushes is wrong";
    }

  private:
    [[nodiscard]] static const char* read_castling(unsigned from, unsigned to, unsigned flag,
                                                   const chess::Position& position, chess::Move& move) {
        const unsigned base = position.side == chess::kWhite ? 0 : 56;
        const unsigned king_to = base + (flag == kKingSide ? 6U : 2U);
        if (to != king_to) return "castling to a square that no king castles to";
        const unsigned right = 2U * position.side + flag - kKingSide;
        move = chess::encode_move(chess::MoveType::kCastling, from, position.castling_rook_square(right));
        return nullptr;
    }

    // Reads the boards. The kind of a piece is 1 pawn, 2 knight, 3 bishop, 4 rook, 5 queen, 6 king; the last three
    // boards have its bits, the highest first.
    [[nodiscard]] static const char* read_pieces(const std::uint8_t* bytes, chess::Position& position) {
        const auto black = chess::load<chess::Bitboard>(bytes);
        const auto high = chess::load<chess::Bitboard>(bytes + 8);
        const auto middle = chess::load<chess::Bitboard>(bytes + 16);
        const auto low = chess::load<chess::Bitboard>(bytes + 24);
        const chess::Bitboard occupied = high | middle | low;
        if ((black & ~occupied) != 0) return "a black piece on a square without a piece";
        if ((high & middle & low) != 0) return "a piece of three kinds";
        if (chess::count_squares(occupied) > 32) return "more than 32 pieces";
        // The planes 1 to 3 are the bits of the type, which is the kind less one; plane 0 is the colour.
        position.occupied = occupied;
        position.planes[0] = black;
        position.planes[1] = ~low & occupied;
        position.planes[2] = (low & middle) | (high & ~low & ~middle);
        position.planes[3] = high & (low | middle);
        return chess::has_one_king_each(position) ? nullptr : chess::kNotOneKingEach;
    }

    [[nodiscard]] static const char* read_ep_square(std::uint8_t square, chess::Position& position) {
        if (square > 63) return "the en-passant square is beyond 63";
        if (square == 0) return nullptr;
        if (!chess::is_possible_ep_square(position, square)) return chess::kBadEnPassantSquare;
        position.ep_square = square;
        return nullptr;
    }

    // Reads the castling rights and the files of their rooks. Returns what is wrong, or null.
    [[nodiscard]] static const char* read_castling_rights(const std::uint8_t* bytes, chess::Position& position) {
        const std::uint8_t rights = bytes[34];
        const std::uint8_t* const files = bytes + 38;
        if (rights > 15) return "castling rights beyond 15";
        const bool in_corners = chess::load<std::uint32_t>(files) == 0;
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned bit = kRightOrder[i];
            if (files[i] > 7) return "a castling rook's file is beyond 7";
            if ((rights >> (3 - i) & 1U) == 0) continue;
            const unsigned corner_file = i % 2 == 0 ? 0U : 7U;
            position.castling = static_cast<std::uint8_t>(position.castling | 1U << bit);
            position.set_castling_rook_file(bit, in_corners ? corner_file : files[i]);
        }
        if (const char* problem = chess::find_castling_problem(position)) return problem;
        position.chess960 = chess::implies_chess960(position);
        return nullptr;
    }
};

}  // namespace SPARSEPOOL_ISA

struct Kernels {
    chess::WalkKernels walk;

    static const Kernels baseline, avx2, avx512;  // common/simd.h
};

[[nodiscard]] const chess::Codec& codec();

}  // namespace sparsepool::montyvalue
