#pragma once

#include "chess/native/board/bitboard.h"
#include "chess/native/features/feature_set.h"
#include "chess/native/record.h"

// The bags of a position (the active features of a view), for any feature set and index type, a piece at a time. Within
// a bag, features are in the order of the set's piece inputs, and in each of these in that of the squares.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

// Spreads eight bits to the lowest bits of eight bytes.
[[nodiscard]] inline std::uint64_t spread_bits(std::uint32_t bits) {
    constexpr std::uint64_t kLowest = 0x0101010101010101;
#if defined(__BMI2__)
    return _pdep_u64(bits, kLowest);
#else
    const std::uint64_t copies = (bits & 0xFF) * kLowest & 0x8040201008040201;  // bit i alone in byte i
    return (copies + 0x7F7F7F7F7F7F7F7F) >> 7 & kLowest;
#endif
}

// Squares and codes of a record's pieces, 32 at most: its planes have no room for more.
struct PieceList {
    std::uint32_t count = 0;
    std::uint8_t square[64];  // more than 32 only to be safe against records that are none
    std::uint64_t codes[4];   // a byte each

    explicit PieceList(const Record& record) {
        for (Bitboard unread = record.occupied; unread != 0; unread &= unread - 1) {
            square[count++] = static_cast<std::uint8_t>(first_square(unread));
        }
        count = count < 32 ? count : 32;
        for (unsigned i = 0; i < 4; ++i) {  // eight pieces each
            codes[i] = 0;
            for (unsigned plane = 0; plane < 4; ++plane) {
                codes[i] |= spread_bits(record.planes[plane] >> (8 * i) & 0xFF) << plane;
            }
        }
    }
};

// Returns the view of a colour, by its king's square. For any record, also a wrong one, the result is below kViews.
[[nodiscard]] inline std::uint8_t view_of(const Record& record, unsigned colour) {
    const std::uint32_t kings = record.planes[1] & record.planes[3];
    const std::uint32_t king = kings & (record.planes[0] ^ (std::uint32_t{colour} - 1));  // planes[0]: black pieces
    const std::uint32_t first_king = king & (~king + 1);
    const Bitboard square = deposit_bits(first_king, record.occupied);
    constexpr Bitboard kH8 = Bitboard{1} << 63;  // if there is no king
    return static_cast<std::uint8_t>(64 * colour + first_square(square | kH8));
}

// Writes the features of the pieces in a view, and returns their number.
template <class Index>
inline std::uint32_t write_bag(const FeatureSet& set, const PieceList& pieces, std::uint8_t view, Index* out) {
    const auto* codes = reinterpret_cast<const std::uint8_t*>(pieces.codes);
    const PieceInputs* inputs = set.piece_inputs.data();
    for (std::size_t i = 0; i < set.piece_inputs.size(); ++i) {
        const std::uint32_t* base_index = inputs[i].base_index[view];
        for (std::uint32_t piece = 0; piece < pieces.count; ++piece) {
            out[piece] = static_cast<Index>(base_index[codes[piece]] ^ pieces.square[piece]);
        }
        out += pieces.count;
    }
    return pieces.count * static_cast<std::uint32_t>(set.piece_inputs.size());
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
