#pragma once

#include <algorithm>
#include <cstdint>

#include "chess/native/board/destinations.h"
#include "chess/native/coding/games.h"
#include "chess/native/coding/marlin_record.h"

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

// All but the kings, which are there. Places are counted without their squares, and spread over the others at the end.
[[nodiscard]] inline const char* read_pieces(Bits& bits, chess::Position& position) {
    constexpr unsigned kPlaces = 62;
    chess::Bitboard occupied = 0;
    chess::Bitboard planes[4] = {};
    unsigned count = 2;
    for (unsigned place = 0; place < kPlaces;) {
        const std::uint64_t next = bits.peek() & ((std::uint64_t{1} << 57) - 1);
        const unsigned empty = next == 0 ? 57 : chess::first_square(next);
        if (empty >= kPlaces - place) {
            bits.skip(kPlaces - place);
            break;
        }
        place += empty;
        bits.skip(empty);
        if (next == 0) continue;
        const unsigned piece = bits.take(5);
        const unsigned type = piece >> 1 & 7U;
        if (type > chess::kQueen) return "no piece has such a code";
        if (++count > 32) return "more than 32 pieces";
        if (bits.overrun()) break;
        const chess::Bitboard bit = chess::bit_of(place++);
        const unsigned code = 2 * type + (piece >> 4);
        occupied |= bit;
        for (unsigned i = 0; i < 4; ++i) planes[i] |= (code >> i & 1) != 0 ? bit : 0;
    }
    const chess::Bitboard others = ~__builtin_bswap64(position.occupied);  // a8 first, as the places are
    position.occupied |= __builtin_bswap64(chess::deposit_bits(occupied, others));
    for (unsigned i = 0; i < 4; ++i) {
        position.planes[i] |= __builtin_bswap64(chess::deposit_bits(planes[i], others));
    }
    return nullptr;
}

[[nodiscard]] inline const char* read_position(const std::uint8_t* bytes, chess::Position& position) {
    Bits bits(bytes);
    position = chess::Position{};
    position.side = static_cast<std::uint8_t>(bits.take(1));
    const unsigned white_king = bits.take(6);
    const unsigned black_king = bits.take(6);
    if (white_king == black_king) return "both kings on one square";
    position.drop(chess::bit_of(white_king), 2U * chess::kKing);
    position.drop(chess::bit_of(black_king), 2U * chess::kKing + 1);
    if (const char* wrong = read_pieces(bits, position)) return wrong;
    position.castling = static_cast<std::uint8_t>(bits.take(4));
    if (bits.take(1) != 0) {
        const unsigned passed = bits.take(6);
        if (!chess::is_passed_over(position, passed)) return "an en-passant square that no pawn has passed";
        position.ep_square = static_cast<std::uint8_t>(passed);
    }
    unsigned clock = bits.take(6);
    bits.skip(16);  // the move number, which the ply says
    clock |= bits.take(1) << 6;
    position.rule50 = static_cast<std::uint8_t>(clock);
    return bits.overrun() ? "the position has more than 256 bits" : nullptr;
}

[[nodiscard]] inline const char* read_record(const std::uint8_t* bytes, bool, chess::Entry& entry) {
    constexpr chess::MoveType kTypes[] = {chess::MoveType::kNormal, chess::MoveType::kPromotion,
                                          chess::MoveType::kEnPassant, chess::MoveType::kCastling};
    if (const char* wrong = read_position(bytes, entry.position)) return wrong;
    const auto word = chess::load<std::uint16_t>(bytes + 34);
    const unsigned promotion = word >> 12 & 3U;
    entry.move = chess::make_move(kTypes[word >> 14], word >> 6 & 63U, word & 63U, promotion);
    if (promotion != 0 && entry.move.type() != chess::MoveType::kPromotion) {
        return "a promotion's piece of a move that is none";
    }
    if (word != 0) {
        chess::Position next = entry.position;
        if (const char* wrong = chess::play_sound(next, entry.move)) return wrong;
    }
    entry.score = chess::load<std::int16_t>(bytes + 32);
    entry.ply = chess::load<std::uint16_t>(bytes + 36);
    entry.result = static_cast<std::int8_t>(bytes[38]);
    return entry.result < -1 || entry.result > 1 ? "the result is not -1, 0 or 1" : nullptr;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::packedsfen
