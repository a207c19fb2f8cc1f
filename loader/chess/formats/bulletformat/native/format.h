#pragma once

#include <cstdint>

#include "chess/native/board/legality.h"
#include "chess/native/files/walk.h"
#include "chess/native/formats/nibbles.h"

namespace sparsepool::chess {
class Codec;
}

// A record, 32 bytes, all of it as the side to move sees it, which is read as White:
//
//     0  occupied squares, 8  nibbles     24  i16 score     26  result, 0 to 2
//    27  own king's square, 28  the other king's, as its side sees it     29  extra, three bytes that are not read
namespace sparsepool::bulletformat {

inline constexpr std::size_t kBytes = 32;

inline namespace SPARSEPOOL_ISA {

[[nodiscard]] inline const char* read_record(const std::uint8_t* bytes, bool, chess::Entry& entry) {
    chess::Position& position = entry.position;
    if (const char* wrong = chess::read_nibbles(bytes, position)) return wrong;
    if (chess::special_pieces(position) != 0) return "no piece has the numbers 6 and 7";
    if (!chess::has_one_king_each(position)) return chess::kNotOneKingEach;
    if (bytes[26] > 2) return "the result is not 0, 1 or 2";
    const bool agrees =
        king_square(position, chess::kWhite) == bytes[27] && (king_square(position, chess::kBlack) ^ 56U) == bytes[28];
    if (!agrees) return "a king's square is not that of the king";
    entry.move = {};
    entry.score = chess::load<std::int16_t>(bytes + 24);
    entry.ply = 0;
    entry.missing_parts = chess::kPlyPart;
    entry.result = static_cast<std::int8_t>(bytes[26] - 1);
    return nullptr;
}

}  // namespace SPARSEPOOL_ISA

struct Kernels {
    chess::WalkKernels walk;

    static const Kernels baseline, avx2, avx512;  // common/simd.h
};

[[nodiscard]] const chess::Codec& codec();

}  // namespace sparsepool::bulletformat
