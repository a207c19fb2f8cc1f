#pragma once

#include <immintrin.h>

#include <cstring>

#include "chess/native/batch/slot_arrays.h"
#include "chess/native/board/bitboard.h"

// The boards of 64 bags turned round: for each square the bags that have something there, one bit a bag. A 64 x 64 bit
// matrix is eight registers, and turning it takes 48 instructions.
namespace sparsepool::chess {

inline constexpr std::uint32_t kGroup = 64;  // bags

inline namespace SPARSEPOOL_ISA {

// Row i of eight registers becomes element i of each.
inline void transpose_words(__m512i (&rows)[8]) {
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

// Byte 8 * i + j of a register from byte 8 * j + i, or with `reversed` from byte 8 * (7 - j) + i.
[[nodiscard]] inline __m512i byte_transposition(bool reversed) {
    alignas(64) std::uint8_t index[64];
    for (unsigned i = 0; i < 64; ++i) {
        const unsigned j = i % 8;
        index[i] = static_cast<std::uint8_t>(8 * (reversed ? 7 - j : j) + i / 8);
    }
    return _mm512_load_si512(index);
}

// 64 bitboards in; out: element f of ranks[r] has bit i if bitboard i has the square 8 * r + f.
inline void transpose_bits(const std::uint64_t* boards, __m512i (&ranks)[8]) {
    const __m512i gather = byte_transposition(true);
    const __m512i spread = byte_transposition(false);
    const __m512i each_bit = _mm512_set1_epi64(static_cast<long long>(0x8040201008040201));
    for (int i = 0; i < 8; ++i) {
        ranks[i] = _mm512_permutexvar_epi8(gather, _mm512_load_si512(boards + 8 * i));
    }
    transpose_words(ranks);
    for (int r = 0; r < 8; ++r) {
        // Multiplying the bits 1, 2, 4, ... by an 8 x 8 bit matrix gives its columns.
        ranks[r] = _mm512_permutexvar_epi8(spread, _mm512_gf2p8affine_epi64_epi8(each_bit, ranks[r], 0));
    }
}

// What 64 bags see: occupied squares and the four planes of piece codes (own pieces even), by rank, each square a word
// of one bit a bag.
struct GroupBoards {
    __m512i ranks[5][8];
};

struct BagBoards {
    alignas(64) std::uint64_t boards[5][kGroup];
    alignas(64) std::uint8_t orientation[kGroup];  // flip, and 64 for black
};

inline void load_bags(const Part& part, Scratch scratch, std::uint32_t batch_size, const std::uint16_t* bags,
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
        out.orientation[i] = static_cast<std::uint8_t>(part.flip[view] | (view & 64));
    }
}

// Turned round first, mirrored then: so mirroring a board is choosing between two words, for 64 bags at once.
inline void turn_boards(const BagBoards& bags, GroupBoards& out) {
    const __m512i orientation = _mm512_load_si512(bags.orientation);
    const auto chosen = [&](char bits) {
        return _mm512_set1_epi64(static_cast<long long>(_mm512_test_epi8_mask(orientation, _mm512_set1_epi8(bits))));
    };
    const __m512i files = chosen(7);
    const __m512i ranks = chosen(56);
    const __m512i black = chosen(64);
    const __m512i backwards = _mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    constexpr int kSelect = 0xCA;  // a ? b : c
    constexpr int kXorAnd = 0x78;  // a ^ (b & c)
    for (int board = 0; board < 5; ++board) {
        __m512i turned[8];
        transpose_bits(bags.boards[board], turned);
        for (__m512i& rank : turned) {
            rank = _mm512_ternarylogic_epi64(files, _mm512_permutexvar_epi64(backwards, rank), rank, kSelect);
        }
        for (int r = 0; r < 8; ++r) {
            out.ranks[board][r] = _mm512_ternarylogic_epi64(ranks, turned[7 - r], turned[r], kSelect);
        }
    }
    for (int r = 0; r < 8; ++r) {
        out.ranks[1][r] = _mm512_ternarylogic_epi64(out.ranks[1][r], black, out.ranks[0][r], kXorAnd);
    }
}

// The bags that have each piece on each square of a rank: own pawn, enemy pawn, own knight, ... enemy king; with
// `kings_together`, both kings in the last but one.
inline void split_pieces(const GroupBoards& group, int rank, bool kings_together, __m512i (&pieces)[12]) {
    const __m512i occupied = group.ranks[0][rank];
    const __m512i enemy = group.ranks[1][rank];
    const __m512i b1 = group.ranks[2][rank];
    const __m512i b2 = group.ranks[3][rank];
    const __m512i b3 = group.ranks[4][rank];
    const __m512i types[6] = {
        _mm512_andnot_si512(_mm512_ternarylogic_epi64(b1, b2, b3, 0xFE), occupied),  // none of them
        _mm512_ternarylogic_epi64(b1, b2, b3, 0x10),                                 // b1 alone
        _mm512_andnot_si512(b1, b2),
        _mm512_and_si512(b1, b2),
        _mm512_andnot_si512(b1, b3),
        _mm512_and_si512(b1, b3),
    };
    for (int type = 0; type < 6; ++type) {
        pieces[2 * type] = _mm512_andnot_si512(enemy, types[type]);
        pieces[2 * type + 1] = _mm512_and_si512(enemy, types[type]);
    }
    if (kings_together) pieces[10] = types[5];
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
