#pragma once

#include "chess/native/board/bitboard.h"
#include "chess/native/features/feature_set.h"
#include "chess/native/record.h"

// A position's bags, for any feature set and any number type, a piece at a time. The order within a bag is that of
// the parts, and in each that of the squares.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

// Eight bits as the lowest bits of eight bytes.
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
struct Pieces {
    std::uint32_t count = 0;
    std::uint8_t square[64];  // more than 32 only to be safe against records that are none
    std::uint64_t codes[4];   // a byte each

    explicit Pieces(const Record& record) {
        for (std::uint64_t rest = record.occupied; rest != 0; rest &= rest - 1) {
            square[count++] = static_cast<std::uint8_t>(__builtin_ctzll(rest));
        }
        count = count < 32 ? count : 32;
        for (unsigned i = 0; i < 4; ++i) {
            codes[i] = 0;
            for (unsigned plane = 0; plane < 4; ++plane) {
                codes[i] |= spread_bits(record.planes[plane] >> (8 * i) & 0xFF) << plane;
            }
        }
    }
};

// The view of a colour: where its king stands. Whatever the record holds, the answer is below kViews.
[[nodiscard]] inline std::uint8_t view_of(const Record& record, unsigned colour) {
    const std::uint32_t kings = record.planes[1] & record.planes[3];
    const std::uint32_t king = kings & (record.planes[0] ^ (std::uint32_t{colour} - 1));
    const std::uint64_t square = deposit_bits(king & (~king + 1), record.occupied);
    return static_cast<std::uint8_t>(64 * colour + (first_square(square | std::uint64_t{1} << 63)));
}

// Writes a bag and gives back its size.
template <class Number>
inline std::uint32_t write_bag(const FeatureSet& set, const Pieces& pieces, std::uint8_t view, Number* out) {
    const auto* codes = reinterpret_cast<const std::uint8_t*>(pieces.codes);
    for (std::size_t part = 0; part < set.parts.size(); ++part) {
        const std::uint32_t* numbers = set.parts.data()[part].numbers[view];
        for (std::uint32_t i = 0; i < pieces.count; ++i) {
            out[i] = static_cast<Number>(numbers[codes[i]] ^ pieces.square[i]);
        }
        out += pieces.count;
    }
    return pieces.count * static_cast<std::uint32_t>(set.parts.size());
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
