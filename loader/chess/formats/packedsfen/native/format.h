#pragma once

#include <algorithm>
#include <cstdint>

#include "chess/native/files/walk.h"
#include "chess/native/formats/marlin_record.h"
#include "chess/native/formats/pseudo_legal.h"
#include "chess/native/formats/record_walk.h"

namespace sparsepool::chess {
class Codec;
}

// A PackedSfenValue of chess, 40 bytes: a packed position of 32, then
//
//    32  i16 score, the mover's    34  move: bits 0-5 to, 6-11 from, 12-13 promotion, 14-15 kind
//    36  u16 ply                   38  i8 result, the mover's         39  padding, which is not read
//
// The position is a row of bits, lowest first: side, kings of white and black (6 each), squares a8 to h8, a7 ... h1
// without those of the kings (0 for an empty one, else 1, type 3, colour 1), rights KQkq (4), en passant (1, then 6),
// clock (6), move number (8 and 8), clock's last bit.
namespace sparsepool::packedsfen {

inline constexpr std::size_t kBytes = 40;
inline constexpr std::size_t kPositionBytes = 32;
inline constexpr const char* kTooManyBits = "the position has more than 256 bits";

enum class Kind : std::uint8_t { kNormal, kPromotion, kEnPassant, kCastling };

inline namespace SPARSEPOOL_ISA {

class Bits {
  public:
    explicit Bits(const std::uint8_t* bytes) : bytes_(bytes) {}

    // The next 57, or more; of those behind the position the record has something, which `overrun` knows.
    [[nodiscard]] std::uint64_t peek() const {
        return chess::load<std::uint64_t>(bytes_ + std::min<std::size_t>(at_ / 8, kPositionBytes)) >> (at_ % 8);
    }
    void skip(unsigned count) { at_ += count; }
    [[nodiscard]] unsigned take(unsigned count) {  // 16 at most
        const auto bits = static_cast<unsigned>(peek() & ((1U << count) - 1));
        skip(count);
        return bits;
    }
    [[nodiscard]] bool overrun() const { return at_ > 8 * kPositionBytes; }

  private:
    const std::uint8_t* bytes_;
    unsigned at_ = 0;
};

inline constexpr unsigned kBoardBit = 13;  // where it begins, behind side and kings
inline constexpr unsigned kPlaces = 62;    // squares without those of the kings

// What is wrong with pieces that read_pieces refuses, up to the end of the position; null if only that is missing.
[[nodiscard, gnu::noinline, gnu::cold]] inline const char* find_pieces_problem(Bits bits) {
    unsigned count = 2;
    for (unsigned place = 0; place < kPlaces && !bits.overrun(); ++place) {
        if (bits.take(1) == 0) continue;
        if ((bits.take(4) & 7U) > chess::kQueen) return "no piece has such a code";
        if (++count > 32) return "more than 32 pieces";
    }
    return nullptr;
}

// All but the kings, which are there; false if they are not sound. The bits of a sound board are looked at 64 at once,
// whatever they are: they are as good as random, so nothing branches on them. Places are counted without the kings'
// squares, and spread over the others at the end.
[[nodiscard]] inline bool read_pieces(const std::uint8_t* bytes, Bits& bits, chess::Position& position) {
    constexpr unsigned kWords = 3;  // 62 places and 30 pieces have 182 bits
    std::uint64_t words[kWords + 1];
    for (unsigned i = 0; i <= kWords; ++i) {  // from bit kBoardBit on
        const std::uint8_t* word = bytes + kBoardBit / 8 + 8UL * i;
        words[i] = chess::load<std::uint64_t>(word) >> kBoardBit % 8 | std::uint64_t{word[8]} << (64 - kBoardBit % 8);
    }
    chess::Bitboard occupied = 0;
    std::uint64_t planes[4] = {};  // of the pieces, one behind the other
    std::uint64_t before = 0;      // where pieces begin in the word before
    unsigned place = 0;
    unsigned count = 0;
    for (unsigned i = 0; i < kWords; ++i) {
        std::uint64_t inside = (30 * (before >> 60)) >> 4;  // of pieces, behind their first bits
        std::uint64_t pieces = 0;
        for (std::uint64_t rest = words[i] & ~inside; rest != 0;) {
            const std::uint64_t first = rest & (~rest + 1);
            pieces |= first;
            rest &= ~(31 * first);
        }
        inside |= 30 * pieces;
        const std::uint64_t behind = chess::deposit_bits(std::uint64_t{1} << (kPlaces - place), ~inside);
        const std::uint64_t read = behind - 1;  // all if the last place is not among these
        pieces &= read;
        before = pieces;
        occupied |= chess::extract_bits(pieces, ~inside & read) << (place & 63U);
        constexpr unsigned kPlanes[4] = {1, 2, 3, 0};  // behind the first bit: three of the type, and the colour
        for (unsigned bit = 0; bit < 4; ++bit) {
            const std::uint64_t shifted = words[i] >> (bit + 1) | words[i + 1] << (63 - bit);
            planes[kPlanes[bit]] |= chess::extract_bits(shifted, pieces) << count;
        }
        place += chess::count_squares(~inside & read);
        count += chess::count_squares(pieces);
        bits.skip(chess::count_squares(read));
    }
    if (place != kPlaces || count > 30 || (planes[3] & (planes[1] | planes[2])) != 0) [[unlikely]]
        return false;
    const chess::Bitboard others = ~__builtin_bswap64(position.occupied);  // a8 first, as the places are
    const chess::Bitboard squares = chess::deposit_bits(occupied, others);
    position.occupied |= __builtin_bswap64(squares);
    for (unsigned i = 0; i < 4; ++i) {
        position.planes[i] |= __builtin_bswap64(chess::deposit_bits(planes[i], squares));
    }
    return true;
}

[[nodiscard]] inline const char* read_position(const std::uint8_t* bytes, chess::Position& position) {
    Bits bits(bytes);
    position = chess::Position{};
    position.side = static_cast<std::uint8_t>(bits.take(1));
    const unsigned white_king = bits.take(6);
    const unsigned black_king = bits.take(6);
    if (white_king == black_king) return "both kings on one square";
    position.put_piece(chess::bit_of(white_king), 2U * chess::kKing);
    position.put_piece(chess::bit_of(black_king), 2U * chess::kKing + 1);
    const Bits pieces = bits;
    if (!read_pieces(bytes, bits, position)) [[unlikely]] {
        const char* wrong = find_pieces_problem(pieces);
        return wrong != nullptr ? wrong : kTooManyBits;
    }
    position.castling = static_cast<std::uint8_t>(bits.take(4));
    if (bits.take(1) != 0) {
        const unsigned passed = bits.take(6);
        if (!chess::is_possible_ep_square(position, passed)) return chess::kBadEnPassantSquare;
        position.ep_square = static_cast<std::uint8_t>(passed);
    }
    unsigned clock = bits.take(6);
    bits.skip(16);  // the move number, which the ply says
    clock |= bits.take(1) << 6;
    position.rule50 = static_cast<std::uint16_t>(clock);
    return bits.overrun() ? kTooManyBits : nullptr;
}

[[nodiscard]] inline const char* read_record(const std::uint8_t* bytes, bool, chess::Entry& entry) {
    constexpr chess::MoveType kTypes[] = {chess::MoveType::kNormal, chess::MoveType::kPromotion,
                                          chess::MoveType::kEnPassant, chess::MoveType::kCastling};
    if (const char* wrong = read_position(bytes, entry.position)) return wrong;
    const auto word = chess::load<std::uint16_t>(bytes + 34);
    const unsigned promotion = word >> 12 & 3U;
    entry.move = chess::encode_move(kTypes[word >> 14], word >> 6 & 63U, word & 63U, promotion);
    if (promotion != 0 && entry.move.type() != chess::MoveType::kPromotion) {
        return "a promotion's piece of a move that is none";
    }
    if (word != 0) {
        if (const char* wrong = chess::find_pseudo_legality_problem(entry.position, entry.move)) return wrong;
    }
    entry.score = chess::load<std::int16_t>(bytes + 32);
    entry.ply = chess::load<std::uint16_t>(bytes + 36);
    entry.missing_parts = 0;
    entry.result = static_cast<std::int8_t>(bytes[38]);
    return entry.result < -1 || entry.result > 1 ? "the result is not -1, 0 or 1" : nullptr;
}

}  // namespace SPARSEPOOL_ISA

struct Kernels {
    chess::WalkKernels walk;

    static const Kernels baseline, avx2, avx512;  // common/simd.h
};

[[nodiscard]] const chess::Codec& codec();

}  // namespace sparsepool::packedsfen
