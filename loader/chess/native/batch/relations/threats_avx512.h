#pragma once

#include <immintrin.h>

#include "chess/native/batch/bag_writer_avx512.h"
#include "chess/native/batch/relations/relations.h"

// The threats of a position for both bags, 32 at a time. Attacks are worked out piece by piece; what they attack lies
// then side by side in bytes, from which all are numbered at once, first as one bag sees them, then the other.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

inline constexpr std::uint32_t kMostThreats = 32 * 8;

// Vectors are stored whole: so much may be written behind the last.
inline constexpr std::uint32_t kSlack = 64;

// The code of the piece on each square, 0 where there is none.
[[nodiscard]] inline __m512i codes_by_square(const Position& position) {
    __m512i codes = _mm512_maskz_set1_epi8(position.planes[0], 1);
    codes = _mm512_mask_add_epi8(codes, position.planes[1], codes, _mm512_set1_epi8(2));
    codes = _mm512_mask_add_epi8(codes, position.planes[2], codes, _mm512_set1_epi8(4));
    return _mm512_mask_add_epi8(codes, position.planes[3], codes, _mm512_set1_epi8(8));
}

// Pieces that may attack something, in order of types and squares, and what they attack. Of 32 pieces at most.
struct Attacks {
    enum Byte : std::uint8_t { kAttacker, kAttackedSquare, kOwnRank, kOpponentRank };  // ranks: of the squares in reach
    static constexpr std::uint32_t kRoom = kMostThreats + kSlack;

    std::uint32_t count;
    __m512i codes;                                     // by square
    alignas(64) std::uint8_t from[32 + kSlack];        // [attacker]
    alignas(64) std::uint16_t before[2][32 + kSlack];  // [attacker]
    alignas(64) std::uint8_t bytes[4][kRoom];          // [Byte]

    void find(const Threats& threats, const RelationBoard& board, const RelationView (&views)[2]) {
        codes = codes_by_square(board.position);
        alignas(64) std::uint8_t code_on[64];
        _mm512_store_si512(code_on, codes);
        const Bitboard related = board.position.occupied & ~(board.position.pawns() & ~board.types[kPawn]);
        const __m512i attackers_by_code =
            _mm512_castsi128_si512(_mm_load_si128(reinterpret_cast<const __m128i*>(threats.attackers)));
        const __m512i may_attack = _mm512_maskz_permutexvar_epi8(related, codes, attackers_by_code);
        Bitboard targets[6];
        std::uint32_t last[6];
        std::uint32_t num_attackers = 0;
        for (unsigned type = 0; type < 6; ++type) {
            targets[type] = _mm512_test_epi8_mask(may_attack, _mm512_set1_epi8(static_cast<char>(1U << type)));
            Bitboard pieces = targets[type] != 0 ? board.types[type] : 0;
            if (type == kPawn) pieces &= attacking_pawns(board.position, targets[kPawn]);
            const __m512i squares = _mm512_maskz_compress_epi8(pieces, all_squares());
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(from + num_attackers), _mm512_castsi512_si256(squares));
            num_attackers += count_squares(pieces);
            last[type] = num_attackers;
        }
        Writer writer(*this, threats, views);
        const Bitboard occupied = board.position.occupied;
        std::uint32_t i = 0;
        for (; i < last[kPawn]; ++i) {
            const std::uint32_t code = code_on[from[i]];
            writer.add(code, from[i], pawn_attacks(code, from[i]) & targets[kPawn]);
        }
        for (; i < last[kKnight]; ++i) {
            writer.add(code_on[from[i]], from[i], knight_attacks(from[i]) & targets[kKnight]);
        }
        for (; i < last[kRook]; ++i) {
            const std::uint32_t code = code_on[from[i]];
            const SquareLines& lines = kAttacks.lines.data()[from[i]];
            const std::uint32_t line = code < 2 * kRook ? kDiagonal : kRank;
            writer.add(code, from[i],
                       (along(lines, line, occupied) | along(lines, line + 1, occupied)) & targets[code / 2]);
        }
        for (; i < last[kQueen]; ++i) {
            const SquareLines& lines = kAttacks.lines.data()[from[i]];
            const Bitboard attacked = along(lines, kRank, occupied) | along(lines, kFile, occupied) |
                                      along(lines, kDiagonal, occupied) | along(lines, kAntidiagonal, occupied);
            writer.add(code_on[from[i]], from[i], attacked & targets[kQueen]);
        }
        for (; i < last[kKing]; ++i) {
            writer.add(code_on[from[i]], from[i], king_attacks(from[i]) & targets[kKing]);
        }
        count = writer.count();
    }

  private:
    // What is written in the loops, all of it behind two pointers. Tables are read flat.
    struct Writer {
        const std::uint8_t* reached_ranks;
        const std::uint16_t* before_squares;
        std::uint8_t* begin;
        std::uint8_t* out;
        std::uint16_t* before;
        std::uint32_t keys[2];
        __m128i flips[2];
        __m128i attacker = _mm_setzero_si128();

        Writer(Attacks& attacks, const Threats& threats, const RelationView (&views)[2])
            : reached_ranks(&kReach.ranks[0][0][0]),
              before_squares(threats.before[0]),
              begin(attacks.bytes[0]),
              out(begin),
              before(attacks.before[0]) {
            for (unsigned view = 0; view < 2; ++view) {
                keys[view] = 64 * views[view].colour + views[view].flip;
                flips[view] = _mm_set1_epi8(static_cast<char>(views[view].flip));
            }
        }

        [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(out - begin); }

        [[gnu::always_inline]] void add(std::uint32_t code, std::uint32_t square, Bitboard attacked) {
            const __m128i squares = _mm512_castsi512_si128(_mm512_maskz_compress_epi8(attacked, all_squares()));
            _mm_storel_epi64(reinterpret_cast<__m128i*>(out), attacker);
            _mm_storel_epi64(reinterpret_cast<__m128i*>(out + kAttackedSquare * kRoom), squares);
            for (std::uint32_t view = 0; view < 2; ++view) {
                const std::size_t seen = (64 * code + square) ^ keys[view];
                const __m512i seen_squares = _mm512_castsi128_si512(_mm_xor_si128(squares, flips[view]));
                const void* ranks = reached_ranks + 64 * seen;
                const __m512i rank = _mm512_permutexvar_epi8(seen_squares, _mm512_load_si512(ranks));
                _mm_storel_epi64(reinterpret_cast<__m128i*>(out + (kOwnRank + view) * kRoom),
                                 _mm512_castsi512_si128(rank));
                before[view * (32 + kSlack)] = before_squares[seen];
            }
            attacker = _mm_sub_epi8(attacker, _mm_set1_epi8(-1));
            ++before;
            out += count_squares(attacked);
        }
    };

    [[nodiscard]] static Bitboard along(const SquareLines& lines, std::uint32_t line, Bitboard occupied) {
        return line_attacks(lines, static_cast<Line>(line), occupied, ~Bitboard{0});
    }

    // Pawns that attack one of these squares: most attack nothing.
    [[nodiscard]] static Bitboard attacking_pawns(const Position& position, Bitboard targets) {
        const Bitboard right = targets & ~kFileA;  // of the pawn
        const Bitboard left = targets & ~kFileH;
        const Bitboard black = position.planes[0];
        return (~black & (right >> 9 | left >> 7)) | (black & (right << 7 | left << 9));
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
inline void number_threats(const Threats& threats, const Attacks& attacks, std::uint32_t begin,
                           const RelationView (&views)[2], ThreatLanes (&out)[2]) {
    const auto bytes = [&](unsigned of) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(attacks.bytes[of] + begin));
    };
    const __m256i attacker = bytes(Attacks::kAttacker);
    const __m256i to = bytes(Attacks::kAttackedSquare);
    const __m256i from =
        _mm256_permutexvar_epi8(attacker, _mm256_load_si256(reinterpret_cast<const __m256i*>(attacks.from)));
    const auto code_on = [&](__m256i squares) {
        return _mm512_castsi512_si256(_mm512_permutexvar_epi8(_mm512_castsi256_si512(squares), attacks.codes));
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
    const __m512i sizes =
        _mm512_permutexvar_epi16(type_lanes, _mm512_castsi128_si512(_mm_maskz_loadu_epi16(0x3F, threats.size)));
    for (unsigned view = 0; view < 2; ++view) {
        const __m256i colour = _mm256_set1_epi8(static_cast<char>(views[view].colour));
        const __m256i flip = _mm256_set1_epi8(static_cast<char>(views[view].flip));
        const __m256i index = _mm256_or_si256(types, _mm256_xor_si256(other, colour));
        const __m256i kinds = _mm512_castsi512_si256(_mm512_permutex2var_epi8(
            _mm512_loadu_si512(threats.kinds), _mm512_castsi256_si512(index),
            _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(threats.kinds[4])))));
        const __m512i before = _mm512_permutexvar_epi16(attacker_lanes, _mm512_load_si512(attacks.before[view]));
        const __m512i inside = _mm512_add_epi16(_mm512_mullo_epi16(_mm512_cvtepu8_epi16(kinds), sizes),
                                                _mm512_cvtepu8_epi16(bytes(Attacks::kOwnRank + view)));
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
