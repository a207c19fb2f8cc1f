#pragma once

#include <cstdint>

#include "chess/native/files/walk.h"
#include "chess/native/formats/games.h"
#include "chess/native/formats/marlin_record.h"
#include "chess/native/formats/storable.h"

namespace sparsepool::chess {
class Codec;
}

// A game: a header of 43 bytes, then moves:
//
//     0  black pieces      8  rooks, queens, kings    16  knights, bishops, kings    24  pawns, bishops, queens
//    32  side, 1 black    33  en-passant square, 0 for none    34  rights: 8 Q, 4 K, 2 q, 1 k    35  halfmove clock
//    36  u16 move number  38  files of the rooks of Q, K, q, k; all 0 for 0 7 0 7               42  result, 0 to 2,
//    White's
//
//     a move: from << 10 | to << 4 | flag. Castling goes to the king's square.
namespace sparsepool::montyvalue {

enum Flag : std::uint8_t { kQuiet, kDoublePush, kKingSide, kQueenSide, kCapture, kEnPassant, kPromotion = 8 };

inline constexpr unsigned kRightOrder[] = {1, 0, 3,
                                           2};  // numbers of rights as Position has them, in the order of files

inline namespace SPARSEPOOL_ISA {

struct Game {
    static constexpr std::size_t kHeader = 43;

    [[nodiscard]] static const char* read_header(const std::uint8_t* bytes, unsigned required_parts,
                                                 chess::Entry& entry, std::int8_t& white_result) {
        chess::Position& position = entry.position;
        position = chess::Position{};
        if (const char* wrong = read_pieces(bytes, position)) return wrong;
        if (bytes[32] > 1) return "the side to move is not 0 or 1";
        position.side = bytes[32];
        if (bytes[33] > 63) return "the en-passant square is beyond 63";
        if (bytes[33] != 0 && !chess::is_possible_ep_square(position, bytes[33])) {
            return chess::kBadEnPassantSquare;
        }
        position.ep_square = bytes[33] != 0 ? bytes[33] : chess::kNoSquare;
        if (const char* wrong = read_rights(bytes, position)) return wrong;
        if (const char* wrong = chess::find_castling_problem(position)) return wrong;
        position.chess960 = chess::implies_chess960(position);
        position.rule50 = bytes[35];
        const auto number = chess::load<std::uint16_t>(bytes + 36);
        if (const char* wrong = chess::find_move_number_problem(number, required_parts)) return wrong;
        entry.ply = chess::ply_of(number, position.side);
        entry.missing_parts = number == 0 ? chess::kPlyPart : 0;
        if (bytes[42] > 2) return "the result is not 0, 1 or 2";
        white_result = static_cast<std::int8_t>(bytes[42] - 1);
        return nullptr;
    }

    // Flags say what the position shows, too: it must be the same.
    [[nodiscard]] static const char* read_move(std::uint16_t word, const chess::Position& position, chess::Move& move) {
        const unsigned from = word >> 10;
        const unsigned to = word >> 4 & 63U;
        const unsigned flag = word & 15U;
        switch (flag) {
            case kKingSide:
            case kQueenSide: {
                const unsigned base = position.side == chess::kWhite ? 0 : 56;
                if (to != base + (flag == kKingSide ? 6U : 2U)) return "castling to a square that no king castles to";
                move = chess::encode_move(chess::MoveType::kCastling, from,
                                          position.castling_rook_square(2U * position.side + flag - kKingSide));
                return nullptr;
            }
            case 6:
            case 7: return "no move has the flags 6 and 7";
            default: break;
        }
        const bool promotes = flag >= kPromotion;
        const chess::MoveType type = promotes             ? chess::MoveType::kPromotion
                                     : flag == kEnPassant ? chess::MoveType::kEnPassant
                                                          : chess::MoveType::kNormal;
        move = chess::encode_move(type, from, to, promotes ? flag & 3U : 0U);
        const bool captures = (flag & kCapture) != 0 && flag != kEnPassant;
        if (captures != ((position.occupied >> to & 1) != 0)) return "a move's flag for captures is wrong";
        const bool pushes = flag == kDoublePush;
        const bool two_ranks = (position.pawns() >> from & 1) != 0 && (from ^ to) == 16;
        return pushes == two_ranks ? nullptr : "a move's flag for double pushes is wrong";
    }

  private:
    // The number of a piece's kind, 1 to 6, in three bits of which each has a board: pawn 1, knight 2, bishop 3,
    // rook 4, queen 5, king 6.
    [[nodiscard]] static const char* read_pieces(const std::uint8_t* bytes, chess::Position& position) {
        const auto black = chess::load<chess::Bitboard>(bytes);
        const auto high = chess::load<chess::Bitboard>(bytes + 8);
        const auto middle = chess::load<chess::Bitboard>(bytes + 16);
        const auto low = chess::load<chess::Bitboard>(bytes + 24);
        const chess::Bitboard occupied = high | middle | low;
        if ((black & ~occupied) != 0) return "a black piece on a square without a piece";
        if ((high & middle & low) != 0) return "a piece of three kinds";
        if (chess::count_squares(occupied) > 32) return "more than 32 pieces";
        // Type is that number less one.
        position.occupied = occupied;
        position.planes[0] = black;
        position.planes[1] = ~low & occupied;
        position.planes[2] = (low & middle) | (high & ~low & ~middle);
        position.planes[3] = high & (low | middle);
        return chess::has_one_king_each(position) ? nullptr : chess::kNotOneKingEach;
    }

    [[nodiscard]] static const char* read_rights(const std::uint8_t* bytes, chess::Position& position) {
        if (bytes[34] > 15) return "castling rights beyond 15";
        const bool corners = chess::load<std::uint32_t>(bytes + 38) == 0;
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned bit = kRightOrder[i];
            if (bytes[38 + i] > 7) return "a castling rook's file is beyond 7";
            if ((bytes[34] >> (3 - i) & 1U) == 0) continue;
            const unsigned file = corners ? (i % 2 == 0 ? 0U : 7U) : bytes[38 + i];
            position.castling = static_cast<std::uint8_t>(position.castling | 1U << bit);
            position.set_castling_rook_file(bit, file);
        }
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
