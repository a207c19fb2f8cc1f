#pragma once

#include "chess/native/board/attacks.h"
#include "chess/native/board/position.h"
#include "chess/native/features/bags.h"
#include "chess/native/features/pawn_pairs.h"
#include "chess/native/features/threats.h"

// Threats and pawn pairs of a position, for both colours at once: attacks are worked out once, and numbered twice.
// Both have equally many. The order within a bag is that of the attackers' types and squares.
namespace sparsepool::chess {

inline constexpr std::uint32_t kMostRelations = 32 * 8 + 31 * 16;  // of any 32 pieces: 8 targets each, every pair

inline namespace SPARSEPOOL_ISA {

// Squares are used xor `flip`; unlike the king of HalfKAv2_hm, the own king comes to the files a to d.
struct RelationView {
    std::uint32_t colour;
    std::uint32_t flip;

    explicit RelationView(std::uint8_t view)
        : colour(view / 64), flip((view / 64 != 0 ? 56U : 0U) ^ ((view & 4) != 0 ? 7U : 0U)) {}
};

struct RelationBoard {
    Position position;
    Bitboard types[6];

    explicit RelationBoard(const Record& record) {
        position.occupied = record.occupied;
        for (unsigned i = 0; i < 4; ++i) position.planes[i] = deposit_bits(record.planes[i], record.occupied);
        const Bitboard* planes = position.planes;
        types[kPawn] = position.pawns() & 0x00FFFFFFFFFFFF00;  // a pawn on the first or last rank relates to nothing
        types[kKnight] = position.knights();
        types[kBishop] = planes[2] & ~planes[1] & ~planes[3];
        types[kRook] = position.rooks() & ~planes[3];
        types[kQueen] = planes[3] & ~planes[1] & ~planes[2];
        types[kKing] = position.kings() & ~planes[2];
    }
};

// The code of each piece by its square; other squares mean nothing.
struct SquareCodes {
    std::uint8_t codes[64];

    explicit SquareCodes(const Pieces& pieces) {
        const auto* code = reinterpret_cast<const std::uint8_t*>(pieces.codes);
        for (std::uint32_t i = 0; i < pieces.count; ++i) codes[pieces.square[i]] = code[i];
    }

    [[nodiscard]] std::uint32_t operator[](unsigned square) const { return codes[square]; }
};

// What one attacker's threats have in common, as one colour sees them.
struct AttackerView {
    const std::uint8_t* kinds;
    const std::uint8_t* ranks;
    std::uint32_t size;
    std::uint32_t first;
    std::uint32_t from;
    RelationView view;

    AttackerView(const Threats& threats, RelationView seen_by, std::uint32_t code, std::uint32_t square)
        : from(square ^ seen_by.flip), view(seen_by) {
        const std::uint32_t seen = code ^ seen_by.colour;
        kinds = threats.kinds[code / 2];
        ranks = kReach.ranks[seen][from];
        size = threats.size[code / 2];
        first = (seen & 1) * threats.half + threats.before[seen][from];
    }

    [[nodiscard]] std::uint32_t number(std::uint32_t code, std::uint32_t square) const {
        return first + kinds[code ^ view.colour] * size + ranks[square ^ view.flip];
    }
};

template <unsigned kType>
[[nodiscard]] inline Bitboard attacks_of(unsigned colour, unsigned square, Bitboard occupied) {
    if constexpr (kType == kPawn) return pawn_attacks(colour, square);
    if constexpr (kType == kKnight) return knight_attacks(square);
    if constexpr (kType == kBishop) return bishop_attacks(square, occupied);
    if constexpr (kType == kRook) return rook_attacks(square, occupied);
    if constexpr (kType == kQueen) return slider_attacks(square, occupied, ~Bitboard{0}, ~Bitboard{0});
    if constexpr (kType == kKing) return king_attacks(square);
}

// Appends the threats of one type of attacker to both bags, each from `count` on, and gives back where they end.
template <unsigned kType>
inline std::uint32_t write_threats_of(const Threats& threats, const RelationBoard& board, const SquareCodes& codes,
                                      const RelationView* views, std::uint32_t first, std::uint32_t count,
                                      std::uint32_t* const* bags) {
    Bitboard targets = 0;
    for (unsigned type = 0; type < 6; ++type) {
        if ((threats.targets[kType] >> type & 1) != 0) targets |= board.types[type];
    }
    if (targets == 0) return count;
    std::uint32_t* own = bags[0] + count;
    std::uint32_t* opponent = bags[1] + count;
    for (Bitboard attackers = board.types[kType]; attackers != 0; attackers &= attackers - 1) {
        const unsigned from = first_square(attackers);
        const std::uint32_t code = codes[from];
        Bitboard attacked = attacks_of<kType>(code & 1, from, board.position.occupied) & targets;
        if (attacked == 0) continue;
        const Bitboard alike =
            board.types[kType] & (kType == kPawn ? board.position.of_colour(~code & 1) : ~Bitboard{0});
        const AttackerView a(threats, views[0], code, from);
        const AttackerView b(threats, views[1], code, from);
        for (; attacked != 0; attacked &= attacked - 1) {
            const unsigned to = first_square(attacked);
            const bool mutual = (alike >> to & 1) != 0;
            *own = first + a.number(codes[to], to);
            own += !(mutual && a.from < (to ^ a.view.flip));
            *opponent = first + b.number(codes[to], to);
            opponent += !(mutual && b.from < (to ^ b.view.flip));
        }
    }
    return static_cast<std::uint32_t>(own - bags[0]);
}

inline std::uint32_t write_threats(const Threats& threats, const RelationBoard& board, const SquareCodes& codes,
                                   const RelationView* views, std::uint32_t first, std::uint32_t count,
                                   std::uint32_t* const* bags) {
    count = write_threats_of<kPawn>(threats, board, codes, views, first, count, bags);
    count = write_threats_of<kKnight>(threats, board, codes, views, first, count, bags);
    count = write_threats_of<kBishop>(threats, board, codes, views, first, count, bags);
    count = write_threats_of<kRook>(threats, board, codes, views, first, count, bags);
    count = write_threats_of<kQueen>(threats, board, codes, views, first, count, bags);
    return write_threats_of<kKing>(threats, board, codes, views, first, count, bags);
}

inline std::uint32_t write_pawn_pairs(const RelationBoard& board, const SquareCodes& codes, const RelationView* views,
                                      std::uint32_t first, std::uint32_t count, std::uint32_t* const* bags) {
    const auto id = [&codes](const RelationView& view, unsigned square) {
        return 48 * ((codes[square] & 1) ^ view.colour) + (square ^ view.flip) - 8;
    };
    for (Bitboard rest = board.types[kPawn]; rest != 0;) {
        const unsigned square = first_square(rest);
        rest &= rest - 1;
        const Bitboard file = kFileA << (square & 7);
        const Bitboard near = file | (file << 1 & ~kFileA) | (file >> 1 & ~kFileH);
        const std::uint32_t own = id(views[0], square);
        const std::uint32_t opponent = id(views[1], square);
        for (Bitboard others = rest & near; others != 0; others &= others - 1, ++count) {
            const unsigned other = first_square(others);
            bags[0][count] = first + pawn_pair(own, id(views[0], other));
            bags[1][count] = first + pawn_pair(opponent, id(views[1], other));
        }
    }
    return count;
}

// Both bags' relations, each of room for kMostRelations; gives back how many each has. `views`: of the bags' colours.
inline std::uint32_t write_relations(const FeatureSet& set, const Record& record, const Pieces& pieces,
                                     const std::uint8_t (&views)[2], std::uint32_t* own, std::uint32_t* opponent) {
    const RelationBoard board(record);
    const SquareCodes codes(pieces);
    const RelationView seen[2] = {RelationView(views[0]), RelationView(views[1])};
    std::uint32_t* const bags[2] = {own, opponent};
    std::uint32_t first = set.first_relation;
    std::uint32_t count = 0;
    if (set.threats != nullptr) {
        count = write_threats(*set.threats, board, codes, seen, first, count, bags);
        first += set.threats->num_inputs;
    }
    return set.pawn_pairs ? write_pawn_pairs(board, codes, seen, first, count, bags) : count;
}

// How many of them a bag of so many numbers of pieces holds.
[[nodiscard]] inline std::uint32_t relations_that_fit(const FeatureSet& set, std::uint32_t pieces,
                                                      std::uint32_t relations) {
    return relations < set.max_active - pieces ? relations : set.max_active - pieces;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
