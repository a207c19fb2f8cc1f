#pragma once

#include <immintrin.h>

#include "chess/native/batch/relations/relations.h"

// The threats of a position for both bags, 32 at a time. Attacks are worked out piece by piece; what they attack lies
// then side by side in bytes, from which all are numbered at once, first as one bag sees them, then the other.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

inline constexpr std::uint32_t kMostThreats = 32 * 8;

// A vector of what has up to 32 lanes may be stored behind the last.
inline constexpr std::uint32_t kSlack = 64;

[[nodiscard]] inline __m512i all_squares() {
    return _mm512_set_epi8(63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41,
                           40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18,
                           17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
}

// The code of the piece on each square, 0 where there is none.
[[nodiscard]] inline __m512i codes_by_square(const Position& position) {
    __m512i codes = _mm512_maskz_set1_epi8(position.planes[0], 1);
    codes = _mm512_mask_add_epi8(codes, position.planes[1], codes, _mm512_set1_epi8(2));
    codes = _mm512_mask_add_epi8(codes, position.planes[2], codes, _mm512_set1_epi8(4));
    return _mm512_mask_add_epi8(codes, position.planes[3], codes, _mm512_set1_epi8(8));
}

// Pieces that attack something, in order of types and squares, and what they attack; of both views, [view].
struct Attacks {
    std::uint32_t num_attackers = 0;
    std::uint32_t count = 0;
    std::uint32_t ends[6] = {};                          // where the attacks of each type end
    alignas(64) std::uint8_t from[32 + kSlack];          // [attacker]
    alignas(64) std::uint16_t before[2][32 + kSlack];    // [attacker]
    alignas(64) std::uint8_t attacker[kMostThreats + kSlack];
    alignas(64) std::uint8_t to[kMostThreats + kSlack];
    alignas(64) std::uint8_t rank[2][kMostThreats + kSlack];  // among the squares in reach

    Attacks(const Threats& threats, const RelationBoard& board, const RelationView (&views)[2]) {
        const __m128i flips[2] = {_mm_set1_epi8(static_cast<char>(views[0].flip)),
                                  _mm_set1_epi8(static_cast<char>(views[1].flip))};
        add<kPawn>(threats, board, views, flips);
        add<kKnight>(threats, board, views, flips);
        add<kBishop>(threats, board, views, flips);
        add<kRook>(threats, board, views, flips);
        add<kQueen>(threats, board, views, flips);
        add<kKing>(threats, board, views, flips);
    }

  private:
    // Pawns that attack one of these squares: most attack nothing.
    [[nodiscard]] static Bitboard attacking_pawns(const Position& position, Bitboard targets) {
        const Bitboard right = targets & ~kFileA;  // of the pawn
        const Bitboard left = targets & ~kFileH;
        const Bitboard black = position.planes[0];
        return (~black & (right >> 9 | left >> 7)) | (black & (right << 7 | left << 9));
    }

    template <unsigned kType>
    void add(const Threats& threats, const RelationBoard& board, const RelationView (&views)[2],
             const __m128i (&flips)[2]) {
        Bitboard targets = 0;
        for (unsigned type = 0; type < 6; ++type) {
            targets |= board.types[type] & -Bitboard{threats.targets[kType] >> type & 1U};
        }
        Bitboard attackers = targets != 0 ? board.types[kType] : 0;
        if constexpr (kType == kPawn) attackers &= attacking_pawns(board.position, targets);
        for (; attackers != 0; attackers &= attackers - 1) {
            const unsigned square = first_square(attackers);
            const std::uint32_t code = 2 * kType + static_cast<std::uint32_t>(board.position.planes[0] >> square & 1);
            const Bitboard attacked = attacks_of<kType>(code & 1, square, board.position.occupied) & targets;
            const __m128i squares = _mm512_castsi512_si128(_mm512_maskz_compress_epi8(attacked, all_squares()));
            for (unsigned view = 0; view < 2; ++view) {
                const std::uint32_t seen = code ^ views[view].colour;
                const std::uint32_t seen_square = square ^ views[view].flip;
                const __m512i seen_squares = _mm512_castsi128_si512(_mm_xor_si128(squares, flips[view]));
                const void* ranks = kReach.ranks[reach_kind(seen)][seen_square];
                const __m512i rank = _mm512_permutexvar_epi8(seen_squares, _mm512_loadu_si512(ranks));
                _mm_storel_epi64(reinterpret_cast<__m128i*>(this->rank[view] + count), _mm512_castsi512_si128(rank));
                before[view][num_attackers] = threats.before[seen][seen_square];
            }
            _mm_storel_epi64(reinterpret_cast<__m128i*>(to + count), squares);
            _mm_storel_epi64(reinterpret_cast<__m128i*>(attacker + count),
                             _mm_set1_epi8(static_cast<char>(num_attackers)));
            from[num_attackers++] = static_cast<std::uint8_t>(square);
            count += count_squares(attacked);
        }
        ends[kType] = count;
    }
};

// Up to 32 threats of one bag: numbers without what an opponent's attacker adds, and which have such a one.
struct ThreatLanes {
    __m512i numbers;
    std::uint32_t by_opponent;
    std::uint32_t kept;  // of the attacks, a bit each

    [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(__builtin_popcount(kept)); }
};

// The attacks from `begin` on.
inline void number_threats(const Threats& threats, const Attacks& attacks, std::uint32_t begin, __m512i codes,
                           const RelationView (&views)[2], ThreatLanes (&out)[2]) {
    const auto bytes = [&](const std::uint8_t* array) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(array + begin));
    };
    const __m256i attacker = bytes(attacks.attacker);
    const __m256i to = bytes(attacks.to);
    const __m256i from =
        _mm256_permutexvar_epi8(attacker, _mm256_load_si256(reinterpret_cast<const __m256i*>(attacks.from)));
    const auto code_on = [&](__m256i squares) {
        return _mm512_castsi512_si256(_mm512_permutexvar_epi8(_mm512_castsi256_si512(squares), codes));
    };
    const __m256i code = code_on(from);
    const __m256i other = code_on(to);
    const __m256i types = _mm256_and_si256(_mm256_slli_epi16(code, 3), _mm256_set1_epi8(0x70));
    const __m256i differ = _mm256_xor_si256(code, other);
    const std::uint32_t same_type = _mm256_testn_epi8_mask(differ, _mm256_set1_epi8(0xE));
    const std::uint32_t same_pawns =
        _mm256_testn_epi8_mask(differ, differ) & _mm256_cmplt_epu8_mask(code, _mm256_set1_epi8(2));
    const std::uint32_t mutual = same_type & ~same_pawns;
    const std::uint32_t rest = attacks.count - begin;
    const std::uint32_t valid = _bzhi_u32(~0U, rest < 32 ? rest : 32);
    const __m512i attacker_lanes = _mm512_cvtepu8_epi16(attacker);
    const __m512i type_lanes = _mm512_cvtepu8_epi16(_mm256_srli_epi16(types, 4));
    const __m512i sizes = _mm512_permutexvar_epi16(
        type_lanes, _mm512_castsi128_si512(_mm_maskz_loadu_epi16(0x3F, threats.size)));
    for (unsigned view = 0; view < 2; ++view) {
        const __m256i colour = _mm256_set1_epi8(static_cast<char>(views[view].colour));
        const __m256i flip = _mm256_set1_epi8(static_cast<char>(views[view].flip));
        const __m256i index = _mm256_or_si256(types, _mm256_xor_si256(other, colour));
        const __m256i kinds = _mm512_castsi512_si256(
            _mm512_permutex2var_epi8(_mm512_loadu_si512(threats.kinds), _mm512_castsi256_si512(index),
                                     _mm512_castsi256_si512(_mm256_loadu_si256(
                                         reinterpret_cast<const __m256i*>(threats.kinds[4])))));
        const __m512i before = _mm512_permutexvar_epi16(attacker_lanes, _mm512_load_si512(attacks.before[view]));
        const __m512i inside = _mm512_add_epi16(_mm512_mullo_epi16(_mm512_cvtepu8_epi16(kinds), sizes),
                                                _mm512_cvtepu8_epi16(bytes(attacks.rank[view])));
        const std::uint32_t dropped =
            mutual & _mm256_cmplt_epu8_mask(_mm256_xor_si256(from, flip), _mm256_xor_si256(to, flip));
        const std::uint32_t opponents = _mm256_test_epi8_mask(_mm256_xor_si256(code, colour), _mm256_set1_epi8(1));
        out[view].kept = valid & ~dropped;
        out[view].numbers = _mm512_maskz_compress_epi16(out[view].kept, _mm512_add_epi16(before, inside));
        out[view].by_opponent = _pext_u32(opponents, out[view].kept);
    }
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
