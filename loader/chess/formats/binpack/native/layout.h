#pragma once

#include <cstdint>

#include "chess/native/board/bitboard.h"

// The binpack format of Stockfish's tools (binpack.md on branch tools of github.com/official-stockfish/Stockfish). A
// file is a sequence of chunks:
//
//     chunk     'BINP', u32 payload size (little-endian), payload: chains
//     chain     stem (32 bytes, entries/stem.h), u16 number of followers (big-endian), move text of the followers
namespace sparsepool::binpack {

inline constexpr char kMagic[4] = {'B', 'I', 'N', 'P'};
inline constexpr std::uint64_t kHeaderBytes = 8;  // magic, then the payload's size, little-endian
inline constexpr std::uint32_t kMaxPayload = 100U << 20;
inline constexpr std::uint32_t kFullChunk = 1U << 20;  // a writer starts no chain in a payload of this size
inline constexpr unsigned kStemBytes = 32;
inline constexpr unsigned kSmallestChain = 34;  // a stem and the number of followers
inline constexpr unsigned kMaxFollowers = 65535;
inline constexpr unsigned kMaxStemPly = (1U << 14) - 1;

// Piece codes of a packed position beyond the plain ones of chess/record.h.
enum PackedPiece : std::uint8_t {
    kPassedPawn = 12,      // a pawn that can be taken en passant
    kWhiteRookRight = 13,  // a rook with its castling right
    kBlackRookRight = 14,
    kBlackKingToMove = 15,
};

enum class Fault : std::uint8_t {
    kNone,
    kTooManyPieces,
    kBadKings,
    kBadPassedPawn,
    kBadResult,
    kNotOwnPiece,
    kOntoOwnPiece,
    kTakesKing,
    kNotAPawn,
    kNoPawnToTake,
    kBadCastling,
    kIndexTooLarge,
    kScoreTooLong,
    kPastTheEnd,
    kIllegal,  // ChunkState::illegal says what
};

[[nodiscard]] const char* describe(Fault fault);

// Zigzag code: signed numbers with the sign in the lowest bit. 0, -1, 1, -2, ... become 0, 1, 2, 3, ...
[[nodiscard, gnu::always_inline]] inline constexpr std::uint16_t zigzag(std::int16_t value) {
    const int wide = value;
    return static_cast<std::uint16_t>(wide < 0 ? -2 * wide - 1 : 2 * wide);
}

[[nodiscard, gnu::always_inline]] inline constexpr std::int16_t unzigzag(std::uint16_t value) {
    const int half = value >> 1;
    return static_cast<std::int16_t>((value & 1) != 0 ? -half - 1 : half);
}

// Returns how many bits an index below `count` has: the logarithm of count, rounded up. No branch on the count, which
// is as good as random: 2 * last + 1 is never zero, so clz is defined.
[[nodiscard, gnu::always_inline]] inline constexpr unsigned index_bits(unsigned count) {
    const unsigned last = count - (count != 0 ? 1U : 0U);
    return 31U - static_cast<unsigned>(__builtin_clz(2 * last + 1));
}

}  // namespace sparsepool::binpack
