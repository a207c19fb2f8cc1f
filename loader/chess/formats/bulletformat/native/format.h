#pragma once

#include <cstdint>

#include "chess/native/board/legality.h"
#include "chess/native/files/walk.h"
#include "chess/native/formats/nibbles.h"

namespace sparsepool::chess {
class Codec;
}

// Records of bulletformat, 32 bytes, little-endian. All is as the side to move sees it, which is read as White:
//
//     0  u64 occupied squares, 8  nibbles (nibbles.h)     24  i16 score     26  result, 0 to 2
//    27  own king's square     28  opponent's king's square, as the opponent sees it     29  three bytes, not read
namespace sparsepool::bulletformat {

inline constexpr std::size_t kBytes = 32;

inline namespace SPARSEPOOL_ISA {

// Decodes a record. Returns what is wrong, or null.
[[nodiscard]] inline const char* read_record(const std::uint8_t* bytes, bool, chess::Entry& entry) {
    chess::Position& position = entry.position;
    if (const char* problem = chess::read_nibbles(bytes, position)) return problem;
    if (chess::special_pieces(position) != 0) return "no piece has the numbers 6 and 7";
    if (!chess::has_one_king_each(position)) return chess::kNotOneKingEach;
    const std::uint8_t result = bytes[26];
    if (result > 2) return "the result is not 0, 1 or 2";
    const bool has_own_king = king_square(position, chess::kWhite) == bytes[27];
    const bool has_enemy_king = (king_square(position, chess::kBlack) ^ 56U) == bytes[28];
    if (!has_own_king || !has_enemy_king) return "a king's square is not that of the king";
    entry.move = {};
    entry.score = chess::load<std::int16_t>(bytes + 24);
    entry.ply = 0;
    entry.missing_parts = chess::kPlyPart;
    entry.result = static_cast<std::int8_t>(result - 1);
    return nullptr;
}

}  // namespace SPARSEPOOL_ISA

struct Kernels {
    chess::WalkKernels walk;

    static const Kernels baseline, avx2, avx512;  // common/simd.h
};

[[nodiscard]] const chess::Codec& codec();

}  // namespace sparsepool::bulletformat
