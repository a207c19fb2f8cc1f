#pragma once

#include <immintrin.h>

#include <cstring>

#include "chess/native/batch/slot_arrays.h"
#include "chess/native/board/bitboard.h"

// The boards of a group of 64 bags, transposed: for each square, in which bags something is there, one bit a bag. A 64
// x 64 bit matrix is eight registers, and its transposition takes 48 instructions.
namespace sparsepool::chess {

inline constexpr std::uint32_t kGroup = 64;  // bags

inline namespace SPARSEPOOL_ISA {

// Transposes an 8 x 8 matrix of 64-bit words, a register for each row.
inline void transpose_words(__m512i (&rows)[8]) {
    // Immediates of shuffle_i64x2: 0x88 takes the even 128-bit lanes of both operands, 0xDD the odd ones.
    __m512i pairs[8];
    for (int i = 0; i < 8; i += 2) {
        pairs[i] = _mm512_unpacklo_epi64(rows[i], rows[i + 1]);
        pairs[i + 1] = _mm512_unpackhi_epi64(rows[i], rows[i + 1]);
    }
    for (int odd = 0; odd < 2; ++odd) {
        const __m512i even_low = _mm512_shuffle_i64x2(pairs[odd], pairs[2 + odd], 0x88);
        const __m512i odd_low = _mm512_shuffle_i64x2(pairs[odd], pairs[2 + odd], 0xDD);
        const __m512i even_high = _mm512_shuffle_i64x2(pairs[4 + odd], pairs[6 + odd], 0x88);
        const __m512i odd_high = _mm512_shuffle_i64x2(pairs[4 + odd], pairs[6 + odd], 0xDD);
        rows[odd] = _mm512_shuffle_i64x2(even_low, even_high, 0x88);
        rows[4 + odd] = _mm512_shuffle_i64x2(even_low, even_high, 0xDD);
        rows[2 + odd] = _mm512_shuffle_i64x2(odd_low, odd_high, 0x88);
        rows[6 + odd] = _mm512_shuffle_i64x2(odd_low, odd_high, 0xDD);
    }
}

// Returns the permutation that transposes an 8 x 8 matrix of bytes: byte 8 * i + j comes from byte 8 * j + i, or with
// `reversed` from byte 8 * (7 - j) + i.
[[nodiscard]] inline __m512i byte_transposition(bool reversed) {
    alignas(64) std::uint8_t index[64];
    for (unsigned i = 0; i < 64; ++i) {
        const unsigned j = i % 8;
        index[i] = static_cast<std::uint8_t>(8 * (reversed ? 7 - j : j) + i / 8);
    }
    return _mm512_load_si512(index);
}

// Transposes 64 bitboards: bit i of word f of ranks[r] is square 8 * r + f of board i.
inline void transpose_bits(const std::uint64_t* boards, __m512i (&ranks)[8]) {
    const __m512i gather_ranks = byte_transposition(true);
    const __m512i transpose_bytes = byte_transposition(false);
    const __m512i unit_vectors = _mm512_set1_epi64(static_cast<long long>(0x8040201008040201));
    for (int i = 0; i < 8; ++i) {
        ranks[i] = _mm512_permutexvar_epi8(gather_ranks, _mm512_load_si512(boards + 8 * i));
    }
    transpose_words(ranks);
    for (int r = 0; r < 8; ++r) {
        // The products of an 8 x 8 bit matrix and the unit vectors 1, 2, 4, ... are its columns.
        const __m512i columns = _mm512_gf2p8affine_epi64_epi8(unit_vectors, ranks[r], 0);
        ranks[r] = _mm512_permutexvar_epi8(transpose_bytes, columns);
    }
}

// The transposed boards of a group: occupied squares, and the four planes of piece codes as the bags see them (own
// pieces even). A word for each square, of one bit a bag.
struct GroupBoards {
    __m512i ranks[5][8];
};

// The boards of a group before they are transposed, as White sees them.
struct BagBoards {
    alignas(64) std::uint64_t boards[5][kGroup];
    alignas(64) std::uint8_t orientation[kGroup];  // the view's flip of squares, and 64 for black
};

// Loads the boards of up to 64 bags; those behind `count` are empty.
inline void load_bags(const PieceInputs& inputs, Scratch scratch, std::uint32_t batch_size, const std::uint16_t* bags,
                      std::uint32_t count, BagBoards& out) {
    if (count < kGroup) std::memset(&out, 0, sizeof out);
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t bag = bags[i];
        const Record& record = scratch.samples[bag < batch_size ? bag : bag - batch_size];
        const std::uint8_t view = scratch.views[bag];
        out.boards[0][i] = record.occupied;
        for (unsigned plane = 0; plane < 4; ++plane) {
            out.boards[1 + plane][i] = _pdep_u64(record.planes[plane], record.occupied);
        }
        out.orientation[i] = static_cast<std::uint8_t>(inputs.flip[view] | (view & 64));
    }
}

// Transposes boards, and then flips them as each bag sees them. In this order flipping is choosing between two words,
// for 64 bags at once.
inline void orient_boards(const BagBoards& bags, GroupBoards& out) {
    const __m512i orientation = _mm512_load_si512(bags.orientation);
    const auto bags_with = [&](char bits) {  // in each word, a bit a bag
        return _mm512_set1_epi64(static_cast<long long>(_mm512_test_epi8_mask(orientation, _mm512_set1_epi8(bits))));
    };
    const __m512i mirrors_files = bags_with(7);
    const __m512i mirrors_ranks = bags_with(56);
    const __m512i is_black = bags_with(64);
    const __m512i reversed = _mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    constexpr int kSelect = 0xCA;  // ternary logic: a ? b : c
    constexpr int kXorAnd = 0x78;  // a ^ (b & c)
    for (int board = 0; board < 5; ++board) {
        __m512i ranks[8];
        transpose_bits(bags.boards[board], ranks);
        for (__m512i& rank : ranks) {
            const __m512i mirrored = _mm512_permutexvar_epi64(reversed, rank);
            rank = _mm512_ternarylogic_epi64(mirrors_files, mirrored, rank, kSelect);
        }
        for (int r = 0; r < 8; ++r) {
            out.ranks[board][r] = _mm512_ternarylogic_epi64(mirrors_ranks, ranks[7 - r], ranks[r], kSelect);
        }
    }
    __m512i(&occupied)[8] = out.ranks[0];
    __m512i(&colours)[8] = out.ranks[1];  // black pieces; then the opponent's
    for (int r = 0; r < 8; ++r) {
        colours[r] = _mm512_ternarylogic_epi64(colours[r], is_black, occupied[r], kXorAnd);
    }
}

// Splits a rank into words of bags for each piece: own pawn, enemy pawn, own knight, ... enemy king. With
// `kings_together`, both kings are in the last word but one.
inline void split_pieces(const GroupBoards& group, int rank, bool kings_together, __m512i (&pieces)[12]) {
    const __m512i occupied = group.ranks[0][rank];
    const __m512i enemy = group.ranks[1][rank];
    const __m512i b1 = group.ranks[2][rank];  // bits of the type, as Position has them
    const __m512i b2 = group.ranks[3][rank];
    const __m512i b3 = group.ranks[4][rank];
    constexpr int kAny = 0xFE;        // ternary logic: a | b | c
    constexpr int kOnlyFirst = 0x10;  // a & ~b & ~c
    const __m512i types[6] = {
        _mm512_andnot_si512(_mm512_ternarylogic_epi64(b1, b2, b3, kAny), occupied),  // pawns
        _mm512_ternarylogic_epi64(b1, b2, b3, kOnlyFirst),                           // knights
        _mm512_andnot_si512(b1, b2),                                                 // bishops
        _mm512_and_si512(b1, b2),                                                    // rooks
        _mm512_andnot_si512(b1, b3),                                                 // queens
        _mm512_and_si512(b1, b3),                                                    // kings
    };
    for (int type = 0; type < 6; ++type) {
        pieces[2 * type] = _mm512_andnot_si512(enemy, types[type]);
        pieces[2 * type + 1] = _mm512_and_si512(enemy, types[type]);
    }
    if (kings_together) pieces[10] = types[5];
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
