#pragma once

#include <immintrin.h>

#include "chess/native/batch/bag_writer_avx512.h"
#include "chess/native/batch/relations/relations.h"

// The threats of a position for both bags, 32 at a time. Attacks are computed piece by piece and stored side by side in
// arrays of bytes. From these the indices of 32 threats are computed at once, first as one bag sees them, then as the
// other does.
namespace sparsepool::chess {

inline namespace SPARSEPOOL_ISA {

inline constexpr std::uint32_t kMaxThreats = 32 * 8;

// Full vectors are stored: so many bytes may be written behind the last item.
inline constexpr std::uint32_t kSlack = 64;

// Returns the code of the piece on each square; 0 for empty squares.
[[nodiscard]] inline __m512i codes_by_square(const Position& position) {
    __m512i codes = _mm512_maskz_set1_epi8(position.planes[0], 1);
    codes = _mm512_mask_add_epi8(codes, position.planes[1], codes, _mm512_set1_epi8(2));
    codes = _mm512_mask_add_epi8(codes, position.planes[2], codes, _mm512_set1_epi8(4));
    return _mm512_mask_add_epi8(codes, position.planes[3], codes, _mm512_set1_epi8(8));
}

// The attacks of a position of 32 pieces at most, in the order of the attackers' types and squares.
struct Attacks {
    // Arrays of bytes, by attack. An attacker is its index in `from`; a rank is that of Reach, as one bag sees it.
    enum Byte : std::uint8_t { kAttacker, kAttackedSquare, kOwnRank, kOpponentRank };
    static constexpr std::uint32_t kRoom = kMaxThreats + kSlack;

    std::uint32_t count;
    __m512i codes;                                     // by square
    alignas(64) std::uint8_t from[32 + kSlack];        // [attacker]
    alignas(64) std::uint16_t before[2][32 + kSlack];  // [view][attacker], of Threats
    alignas(64) std::uint8_t bytes[4][kRoom];          // [Byte]

    void find(const Threats& threats, const RelationBoard& board, const RelationView (&views)[2]) {
        codes = codes_by_square(board.position);
        alignas(64) std::uint8_t code_on[64];  // by square
        _mm512_store_si512(code_on, codes);
        // All pieces but pawns on the first and last rank.
        const Bitboard related = board.position.occupied & ~(board.position.pawns() & ~board.types[kPawn]);
        const __m512i attackers_by_code =
            _mm512_castsi128_si512(_mm_load_si128(reinterpret_cast<const __m128i*>(threats.attackers)));
        // Of each square, a bit for each type that may attack the piece on it.
        const __m512i may_attack = _mm512_maskz_permutexvar_epi8(related, codes, attackers_by_code);
        Bitboard targets[6];    // by type of attacker
        std::uint32_t ends[6];  // of the attackers of a type in `from`
        std::uint32_t num_attackers = 0;
        for (unsigned type = 0; type < 6; ++type) {
            targets[type] = _mm512_test_epi8_mask(may_attack, _mm512_set1_epi8(static_cast<char>(1U << type)));
            Bitboard pieces = targets[type] != 0 ? board.types[type] : 0;
            if (type == kPawn) pieces &= attacking_pawns(board.position, targets[kPawn]);
            const __m512i squares = _mm512_maskz_compress_epi8(pieces, all_squares());
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(from + num_attackers), _mm512_castsi512_si256(squares));
            num_attackers += count_squares(pieces);
            ends[type] = num_attackers;
        }
        Writer writer(*this, threats, views);
        const Bitboard occupied = board.position.occupied;
        std::uint32_t i = 0;  // a loop for each way of moving, so that none of them branches on the type
        for (; i < ends[kPawn]; ++i) {
            const std::uint32_t code = code_on[from[i]];
            writer.add(code, from[i], pawn_attacks(code, from[i]) & targets[kPawn]);
        }
        for (; i < ends[kKnight]; ++i) {
            writer.add(code_on[from[i]], from[i], knight_attacks(from[i]) & targets[kKnight]);
        }
        for (; i < ends[kRook]; ++i) {  // bishops and rooks
            const std::uint32_t code = code_on[from[i]];
            const SquareLines& lines = kAttacks.lines.data()[from[i]];
            const std::uint32_t line = code < 2 * kRook ? kDiagonal : kRank;
            const Bitboard attacked = along(lines, line, occupied) | along(lines, line + 1, occupied);
            writer.add(code, from[i], attacked & targets[code / 2]);
        }
        for (; i < ends[kQueen]; ++i) {
            const SquareLines& lines = kAttacks.lines.data()[from[i]];
            const Bitboard attacked = along(lines, kRank, occupied) | along(lines, kFile, occupied) |
                                      along(lines, kDiagonal, occupied) | along(lines, kAntidiagonal, occupied);
            writer.add(code_on[from[i]], from[i], attacked & targets[kQueen]);
        }
        for (; i < ends[kKing]; ++i) {
            writer.add(code_on[from[i]], from[i], king_attacks(from[i]) & targets[kKing]);
        }
        count = writer.count();
    }

  private:
    // Appends attacks. The arrays are written behind two pointers, and the tables are read as flat arrays.
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

        // Appends the attacks of the next attacker.
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

    // Returns the pawns that attack one of the targets: most pawns attack nothing.
    [[nodiscard]] static Bitboard attacking_pawns(const Position& position, Bitboard targets) {
        const Bitboard right = targets & ~kFileA;  // can be attacked towards the h-file
        const Bitboard left = targets & ~kFileH;   // towards the a-file
        const Bitboard black = position.planes[0];
        return (~black & (right >> 9 | left >> 7)) | (black & (right << 7 | left << 9));
    }
};

// Up to 32 threats of one bag.
struct ThreatLanes {
    __m512i indices;            // of 16 bits: without Threats::half for an opponent's attacker
    std::uint32_t by_opponent;  // threats by an opponent's attacker, a bit each
    std::uint32_t kept;         // attacks that are threats, a bit each

    [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(__builtin_popcount(kept)); }
};

// Computes the indices of the threats of 32 attacks from `begin` on, for both bags (Threats). Of two equal pieces that
// attack each other, only one attack is a threat.
inline void index_threats(const Threats& threats, const Attacks& attacks, std::uint32_t begin,
                          const RelationView (&views)[2], ThreatLanes (&out)[2]) {
    const auto load_bytes = [&](unsigned array) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(attacks.bytes[array] + begin));
    };
    const __m256i attacker = load_bytes(Attacks::kAttacker);
    const __m256i to = load_bytes(Attacks::kAttackedSquare);
    const __m256i from =
        _mm256_permutexvar_epi8(attacker, _mm256_load_si256(reinterpret_cast<const __m256i*>(attacks.from)));
    const auto code_on = [&](__m256i squares) {
        return _mm512_castsi512_si256(_mm512_permutexvar_epi8(_mm512_castsi256_si512(squares), attacks.codes));
    };
    const __m256i code = code_on(from);
    const __m256i attacked_code = code_on(to);
    const __m256i types = _mm256_and_si256(_mm256_slli_epi16(code, 3), _mm256_set1_epi8(0x70));  // 16 * type
    const __m256i differ = _mm256_xor_si256(code, attacked_code);
    const std::uint32_t same_type = _mm256_testn_epi8_mask(differ, _mm256_set1_epi8(0xE));
    const std::uint32_t same_pawns =
        _mm256_testn_epi8_mask(differ, differ) & _mm256_cmplt_epu8_mask(code, _mm256_set1_epi8(2));
    const std::uint32_t mutual = same_type & ~same_pawns;  // pawns of one colour do not attack each other
    const std::uint32_t remaining = attacks.count - begin;
    const std::uint32_t valid = _bzhi_u32(~0U, remaining < 32 ? remaining : 32);
    const __m512i attacker_lanes = _mm512_cvtepu8_epi16(attacker);
    const __m512i type_lanes = _mm512_cvtepu8_epi16(_mm256_srli_epi16(types, 4));
    const __m512i sizes =
        _mm512_permutexvar_epi16(type_lanes, _mm512_castsi128_si512(_mm_maskz_loadu_epi16(0x3F, threats.size)));
    for (unsigned view = 0; view < 2; ++view) {
        const __m256i colour = _mm256_set1_epi8(static_cast<char>(views[view].colour));
        const __m256i flip = _mm256_set1_epi8(static_cast<char>(views[view].flip));
        const __m256i kind_index = _mm256_or_si256(types, _mm256_xor_si256(attacked_code, colour));
        const __m256i kinds = _mm512_castsi512_si256(_mm512_permutex2var_epi8(
            _mm512_loadu_si512(threats.kinds), _mm512_castsi256_si512(kind_index),
            _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(threats.kinds[4])))));
        const __m512i before = _mm512_permutexvar_epi16(attacker_lanes, _mm512_load_si512(attacks.before[view]));
        const __m512i inside = _mm512_add_epi16(_mm512_mullo_epi16(_mm512_cvtepu8_epi16(kinds), sizes),
                                                _mm512_cvtepu8_epi16(load_bytes(Attacks::kOwnRank + view)));
        const std::uint32_t dropped =
            mutual & _mm256_cmplt_epu8_mask(_mm256_xor_si256(from, flip), _mm256_xor_si256(to, flip));
        const std::uint32_t opponents = _mm256_test_epi8_mask(_mm256_xor_si256(code, colour), _mm256_set1_epi8(1));
        out[view].kept = valid & ~dropped;
        out[view].indices = _mm512_maskz_compress_epi16(out[view].kept, _mm512_add_epi16(before, inside));
        out[view].by_opponent = _pext_u32(opponents, out[view].kept);
    }
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
