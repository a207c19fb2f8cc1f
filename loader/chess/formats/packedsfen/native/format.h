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

// A PackedSfenValue of chess, as Stockfish's tools write it (packed_sfen.h): 40 bytes, little-endian.
//
//     0  position, 256 bits        32  i16 score, the mover's      34  move: bits 0-5 to, 6-11 from,
//    36  u16 ply                   38  i8 result, the mover's          12-13 promotion, 14-15 kind
//    39  padding, which is not read
//
// The position is a stream of bits, the lowest of a byte first:
//
//     1  side to move     6 + 6  squares of the white and the black king
//     62 squares: a8 to h8, a7 ... h1, without the kings': 0 for an empty one, else 1, type (3 bits), colour (1 bit)
//     4  castling rights KQkq     1  whether there is an en-passant square, and then 6  that square
//     6  clock     16  move number     1  bit 6 of the clock
namespace sparsepool::packedsfen {

inline constexpr std::size_t kBytes = 40;
inline constexpr std::size_t kPositionBytes = 32;
inline constexpr const char* kTooManyBits = "the position has more than 256 bits";

enum class Kind : std::uint8_t { kNormal, kPromotion, kEnPassant, kCastling };

inline namespace SPARSEPOOL_ISA {

// Reads the bits of a position from the lowest on.
class BitReader {
  public:
    explicit BitReader(const std::uint8_t* bytes) : bytes_(bytes) {}

    // Returns the next 57 bits or more. Behind the position these are other bits of the record.
    [[nodiscard]] std::uint64_t peek() const {
        const std::size_t byte = std::min<std::size_t>(bit_ / 8, kPositionBytes);
        return chess::load<std::uint64_t>(bytes_ + byte) >> (bit_ % 8);
    }
    void skip(unsigned count) { bit_ += count; }
    [[nodiscard]] unsigned read(unsigned count) {  // 16 at most
        const auto bits = static_cast<unsigned>(peek() & ((1U << count) - 1));
        skip(count);
        return bits;
    }
    [[nodiscard]] bool is_past_end() const { return bit_ > 8 * kPositionBytes; }

  private:
    const std::uint8_t* bytes_;
    unsigned bit_ = 0;
};

inline constexpr unsigned kBoardBit = 13;    // the first bit of the board, behind side and kings
inline constexpr unsigned kNumSquares = 62;  // without those of the kings

// Returns what is wrong with a board that read_pieces refuses; null if only the position is too long.
[[nodiscard, gnu::noinline, gnu::cold]] inline const char* find_pieces_problem(BitReader bits) {
    unsigned num_pieces = 2;  // the kings
    for (unsigned square = 0; square < kNumSquares && !bits.is_past_end(); ++square) {
        const bool is_empty = bits.read(1) == 0;
        if (is_empty) continue;
        const unsigned type = bits.read(4) & 7U;
        if (type > chess::kQueen) return "no piece has such a code";
        if (++num_pieces > 32) return "more than 32 pieces";
    }
    return nullptr;
}

// Returns where pieces begin in a word of the board's bits. `inside`: bits that belong to a piece that began in the
// word before. A piece has five bits, of which the first is 1.
[[nodiscard, gnu::always_inline]] inline std::uint64_t find_piece_starts(std::uint64_t word, std::uint64_t inside) {
    std::uint64_t starts = 0;
    std::uint64_t candidates = word & ~inside;
    while (candidates != 0) {
        const std::uint64_t lowest = candidates & (~candidates + 1);
        starts |= lowest;
        candidates &= ~(0b11111 * lowest);
    }
    return starts;
}

// Reads the board into a position that has the kings already. Returns false if it is wrong: find_pieces_problem says
// why.
//
// The bits of the board are as good as random, so they are decoded 64 at once without branches on them. Squares are
// first counted without those of the kings, and spread over the real squares at the end.
[[nodiscard]] inline bool read_pieces(const std::uint8_t* bytes, BitReader& bits, chess::Position& position) {
    constexpr unsigned kWords = 3;  // 62 squares and 4 more bits for each of 30 pieces are 182 bits
    std::uint64_t words[kWords + 1];
    for (unsigned i = 0; i <= kWords; ++i) {  // from bit kBoardBit on
        const std::uint8_t* word = bytes + kBoardBit / 8 + 8UL * i;
        words[i] = chess::load<std::uint64_t>(word) >> kBoardBit % 8 | std::uint64_t{word[8]} << (64 - kBoardBit % 8);
    }
    chess::Bitboard occupied = 0;       // squares without those of the kings, in the order of the format
    std::uint64_t planes[4] = {};       // bits of the pieces' codes, a bit for each piece
    std::uint64_t previous_starts = 0;  // of pieces in the word before
    unsigned num_squares = 0;
    unsigned num_pieces = 0;
    for (unsigned i = 0; i < kWords; ++i) {
        constexpr std::uint64_t kInside = 0b11110;  // bits of a piece behind its first
        std::uint64_t inside = (kInside * (previous_starts >> 60)) >> 4;
        std::uint64_t starts = find_piece_starts(words[i], inside);
        inside |= kInside * starts;
        // Each bit that is not inside of a piece is a square. Those from the 63rd square on belong to the next fields.
        const std::uint64_t board_end = chess::deposit_bits(std::uint64_t{1} << (kNumSquares - num_squares), ~inside);
        const std::uint64_t board_bits = board_end - 1;  // all 64, if the board does not end in this word
        const std::uint64_t square_bits = ~inside & board_bits;
        starts &= board_bits;
        previous_starts = starts;
        occupied |= chess::extract_bits(starts, square_bits) << (num_squares & 63U);
        constexpr unsigned kPlanes[4] = {1, 2, 3,
                                         0};  // of the bits behind the first: three of the type, and the colour
        for (unsigned bit = 0; bit < 4; ++bit) {
            const std::uint64_t shifted = words[i] >> (bit + 1) | words[i + 1] << (63 - bit);
            planes[kPlanes[bit]] |= chess::extract_bits(shifted, starts) << num_pieces;
        }
        num_squares += chess::count_squares(square_bits);
        num_pieces += chess::count_squares(starts);
        bits.skip(chess::count_squares(board_bits));
    }
    const bool has_wrong_type = (planes[3] & (planes[1] | planes[2])) != 0;  // 5 to 7
    if (num_squares != kNumSquares || num_pieces > 30 || has_wrong_type) [[unlikely]]
        return false;
    // The format begins with a8: swapping bytes converts from and to the order of bitboards.
    const chess::Bitboard not_kings = ~__builtin_bswap64(position.occupied);
    const chess::Bitboard squares = chess::deposit_bits(occupied, not_kings);
    position.occupied |= __builtin_bswap64(squares);
    for (unsigned i = 0; i < 4; ++i) {
        position.planes[i] |= __builtin_bswap64(chess::deposit_bits(planes[i], squares));
    }
    return true;
}

// Decodes the position of 32 bytes. Returns what is wrong, or null.
[[nodiscard]] inline const char* read_position(const std::uint8_t* bytes, chess::Position& position) {
    BitReader bits(bytes);
    position = chess::Position{};
    position.side = static_cast<std::uint8_t>(bits.read(1));
    const unsigned white_king = bits.read(6);
    const unsigned black_king = bits.read(6);
    if (white_king == black_king) return "both kings on one square";
    position.put_piece(chess::bit_of(white_king), 2U * chess::kKing);
    position.put_piece(chess::bit_of(black_king), 2U * chess::kKing + 1);
    const BitReader board = bits;
    if (!read_pieces(bytes, bits, position)) [[unlikely]] {
        const char* problem = find_pieces_problem(board);
        return problem != nullptr ? problem : kTooManyBits;
    }
    position.castling = static_cast<std::uint8_t>(bits.read(4));
    const bool has_ep_square = bits.read(1) != 0;
    if (has_ep_square) {
        const unsigned ep_square = bits.read(6);
        if (!chess::is_possible_ep_square(position, ep_square)) return chess::kBadEnPassantSquare;
        position.ep_square = static_cast<std::uint8_t>(ep_square);
    }
    const unsigned low_clock = bits.read(6);
    bits.skip(16);  // the move number: the record has the ply
    const unsigned high_clock = bits.read(1);
    position.rule50 = static_cast<std::uint16_t>(low_clock | high_clock << 6);
    return bits.is_past_end() ? kTooManyBits : nullptr;
}

// Decodes a record. Returns what is wrong, or null.
[[nodiscard]] inline const char* read_record(const std::uint8_t* bytes, bool, chess::Entry& entry) {
    constexpr chess::MoveType kTypes[] = {chess::MoveType::kNormal, chess::MoveType::kPromotion,
                                          chess::MoveType::kEnPassant, chess::MoveType::kCastling};  // by Kind
    if (const char* problem = read_position(bytes, entry.position)) return problem;
    const auto move_word = chess::load<std::uint16_t>(bytes + 34);
    const unsigned to = move_word & 63U;
    const unsigned from = move_word >> 6 & 63U;
    const unsigned promotion = move_word >> 12 & 3U;
    entry.move = chess::encode_move(kTypes[move_word >> 14], from, to, promotion);
    if (promotion != 0 && entry.move.type() != chess::MoveType::kPromotion) {
        return "a promotion's piece of a move that is none";
    }
    if (move_word != 0) {
        if (const char* problem = chess::find_pseudo_legality_problem(entry.position, entry.move)) return problem;
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
