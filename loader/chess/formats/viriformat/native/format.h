#pragma once

#include <cstdint>

#include "chess/native/files/walk.h"
#include "chess/native/formats/games.h"
#include "chess/native/formats/marlin_record.h"

namespace sparsepool::chess {
class Codec;
}

// A game of viriformat: a record of marlinformat (marlin_record.h), of which the score is not read, then moves with
// scores (games.h). Bits of a move:
//
//     0-5  from     6-11  to     12-13  promotion: knight, bishop, rook, queen
//    14-15  kind: normal, en passant, castling (to the rook's square), promotion
namespace sparsepool::viriformat {

enum class Kind : std::uint8_t { kNormal, kEnPassant, kCastling, kPromotion };

inline namespace SPARSEPOOL_ISA {

struct Game {
    static constexpr std::size_t kHeader = chess::kMarlinBytes;

    [[nodiscard]] static const char* read_header(const std::uint8_t* bytes, unsigned required_parts,
                                                 chess::Entry& entry, std::int8_t& white_result) {
        return chess::read_marlin_board(bytes, required_parts, entry, white_result);
    }

    // Decodes a move. Returns what is wrong, or null.
    [[nodiscard]] static const char* read_move(std::uint16_t word, const chess::Position&, chess::Move& move) {
        constexpr chess::MoveType kTypes[] = {chess::MoveType::kNormal, chess::MoveType::kEnPassant,
                                              chess::MoveType::kCastling, chess::MoveType::kPromotion};
        const unsigned promotion = word >> 12 & 3U;
        move = chess::encode_move(kTypes[word >> 14], word & 63U, word >> 6 & 63U, promotion);
        if (promotion != 0 && move.type() != chess::MoveType::kPromotion) [[unlikely]]
            return "a promotion's piece of a move that is none";
        return nullptr;
    }
};

}  // namespace SPARSEPOOL_ISA

struct Kernels {
    chess::WalkKernels walk;

    static const Kernels baseline, avx2, avx512;  // common/simd.h
};

[[nodiscard]] const chess::Codec& codec();

}  // namespace sparsepool::viriformat
