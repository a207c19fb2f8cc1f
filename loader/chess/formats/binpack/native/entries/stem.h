#pragma once

#include <cstdint>

#include "chess/formats/binpack/native/layout.h"
#include "chess/native/board/rules.h"

// The stem, the packed entry that begins a chain, 32 bytes; numbers are big-endian:
//
//     0  u64 occupied squares    8  nibbles of pieces (packed position)     24  move     26  score, zigzag
//    28  ply in 14 bits, and above it the result, zigzag in 2 bits          30  half-move clock
namespace sparsepool::binpack {

inline namespace SPARSEPOOL_ISA {

[[nodiscard]] inline std::uint64_t load_big_endian(const std::uint8_t* bytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, sizeof word);
    return __builtin_bswap64(word);
}

[[nodiscard]] inline std::uint16_t load_big_endian16(const std::uint8_t* bytes) {
    return static_cast<std::uint16_t>(bytes[0] << 8 | bytes[1]);
}

// Applies what a packed code of 12 to 15 (PackedPiece) says of the position, and returns the plain piece code.
[[nodiscard]] inline unsigned unpack_piece(chess::Position& position, unsigned code, unsigned square, Fault& fault) {
    switch (code) {
        case kPassedPawn: {
            const unsigned rank = square >> 3;
            if ((rank != 3 && rank != 4) || position.ep_square != chess::kNoSquare) fault = Fault::kBadPassedPawn;
            const bool is_white = rank == 3;
            position.ep_square = static_cast<std::uint8_t>(is_white ? square - 8 : square + 8);
            return is_white ? 0 : 1;
        }
        case kWhiteRookRight:
            position.castling |= square == chess::kA1 ? chess::kWhiteQueenSide : chess::kWhiteKingSide;
            if (square != chess::kA1) position.set_castling_rook_file(0, square & 7);
            return 2 * chess::kRook;
        case kBlackRookRight:
            position.castling |= square == chess::kA8 ? chess::kBlackQueenSide : chess::kBlackKingSide;
            if (square != chess::kA8) position.set_castling_rook_file(2, square & 7);
            return 2 * chess::kRook + 1;
        default:  // kBlackKingToMove
            position.side = chess::kBlack;
            return 2 * chess::kKing + 1;
    }
}

// Reads the packed position, 24 bytes: the occupied squares, then the code of each piece in a nibble, ascending, the
// low nibble of a byte first.
[[nodiscard]] inline Fault read_position(const std::uint8_t* bytes, chess::Position& position) {
    const chess::Bitboard occupied = load_big_endian(bytes);
    if (chess::count_squares(occupied) > 32) return Fault::kTooManyPieces;
    std::uint64_t packed[2];
    std::memcpy(packed, bytes + 8, sizeof packed);
    position = chess::Position{};
    position.occupied = occupied;
    for (unsigned i = 0; i < 4; ++i) {
        const std::uint64_t bit_i_of_nibbles = std::uint64_t{0x1111111111111111} << i;
        const std::uint64_t low = chess::extract_bits(packed[0], bit_i_of_nibbles);
        const std::uint64_t high = chess::extract_bits(packed[1], bit_i_of_nibbles);
        position.planes[i] = chess::deposit_bits(low | high << 16, occupied);
    }
    Fault fault = Fault::kNone;
    chess::Bitboard special = position.planes[2] & position.planes[3];  // codes from 12 on
    for (; special != 0; special &= special - 1) {
        const unsigned square = chess::first_square(special);
        const unsigned code = unpack_piece(position, position.code_at(square), square, fault);
        position.remove_pieces(chess::bit_of(square));
        position.put_piece(chess::bit_of(square), code);
    }
    return chess::has_one_king_each(position) ? fault : Fault::kBadKings;
}

// Reads the 32 bytes of a stem.
[[nodiscard]] inline Fault read_stem(const std::uint8_t* bytes, chess::Entry& entry) {
    const Fault fault = read_position(bytes, entry.position);
    if (fault != Fault::kNone) return fault;
    entry.move.word = load_big_endian16(bytes + 24);
    entry.score = unzigzag(load_big_endian16(bytes + 26));
    const std::uint16_t ply_result = load_big_endian16(bytes + 28);
    entry.ply = ply_result & kMaxStemPly;
    entry.result = static_cast<std::int8_t>(unzigzag(ply_result >> 14));
    entry.position.rule50 = load_big_endian16(bytes + 30);
    return entry.result >= -1 ? Fault::kNone : Fault::kBadResult;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::binpack
