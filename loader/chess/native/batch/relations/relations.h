#pragma once

#include "chess/native/board/attacks.h"
#include "chess/native/board/position.h"
#include "chess/native/features/bags.h"
#include "chess/native/features/pawn_pairs.h"
#include "chess/native/features/threats.h"

// Threats and pawn pairs of a position, for the bags of both colours at once: attacks are computed once and indexed
// twice. Both bags have equally many. Within a bag, threats are in the order of the attackers' types and squares.
namespace sparsepool::chess {

inline constexpr std::uint32_t kMaxRelations = 32 * 8 + 31 * 16;  // of any 32 pieces: 8 targets each, and every pair

inline namespace SPARSEPOOL_ISA {

// How one colour sees squares: xor `flip`, so that its king is on files a to d (the king of HalfKAv2_hm: e to h).
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

// The codes of pieces by square; undefined for empty squares.
struct SquareCodes {
    std::uint8_t codes[64];

    explicit SquareCodes(const PieceList& pieces) {
        const auto* code = reinterpret_cast<const std::uint8_t*>(pieces.codes);
        for (std::uint32_t i = 0; i < pieces.count; ++i) codes[pieces.square[i]] = code[i];
    }

    [[nodiscard]] std::uint32_t operator[](unsigned square) const { return codes[square]; }
};

// What the indices of one attacker's threats have in common, as one colour sees them (Threats).
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

    // Returns the index of the threat to a piece.
    [[nodiscard]] std::uint32_t threat_index(std::uint32_t code, std::uint32_t square) const {
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

// Appends the threats of one type of attacker to both bags, each from `count` on. Returns where they end.
//
// Of two equal pieces that attack each other, only one threat counts: that of the piece on the higher square, as the
// view sees it. Pawns attack each other only if they are of different colours.
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
        const Bitboard attack_back =
            board.types[kType] & (kType == kPawn ? board.position.of_colour(~code & 1) : ~Bitboard{0});
        const AttackerView own_view(threats, views[0], code, from);
        const AttackerView opponent_view(threats, views[1], code, from);
        for (; attacked != 0; attacked &= attacked - 1) {
            const unsigned to = first_square(attacked);
            const bool is_mutual = (attack_back >> to & 1) != 0;
            // Written always, and overwritten by the next threat if it does not count.
            *own = first + own_view.threat_index(codes[to], to);
            own += !(is_mutual && own_view.from < (to ^ own_view.view.flip));
            *opponent = first + opponent_view.threat_index(codes[to], to);
            opponent += !(is_mutual && opponent_view.from < (to ^ opponent_view.view.flip));
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

// Appends the pairs of pawns on the same file or on neighbouring files to both bags, from `count` on. Returns where
// they end.
inline std::uint32_t write_pawn_pairs(const RelationBoard& board, const SquareCodes& codes, const RelationView* views,
                                      std::uint32_t first, std::uint32_t count, std::uint32_t* const* bags) {
    const auto pawn_id = [&codes](const RelationView& view, unsigned square) {  // of pawn_pair_index
        return 48 * ((codes[square] & 1) ^ view.colour) + (square ^ view.flip) - 8;
    };
    for (Bitboard pawns = board.types[kPawn]; pawns != 0;) {
        const unsigned square = first_square(pawns);
        pawns &= pawns - 1;
        const Bitboard file = kFileA << (square & 7);
        const Bitboard near_files = file | (file << 1 & ~kFileA) | (file >> 1 & ~kFileH);
        const std::uint32_t own = pawn_id(views[0], square);
        const std::uint32_t opponent = pawn_id(views[1], square);
        for (Bitboard partners = pawns & near_files; partners != 0; partners &= partners - 1, ++count) {
            const unsigned partner = first_square(partners);
            bags[0][count] = first + pawn_pair_index(own, pawn_id(views[0], partner));
            bags[1][count] = first + pawn_pair_index(opponent, pawn_id(views[1], partner));
        }
    }
    return count;
}

// Writes the relations of both bags, which must have room for kMaxRelations, and returns how many each has. `views` are
// those of the bags.
inline std::uint32_t write_relations(const FeatureSet& set, const Record& record, const PieceList& pieces,
                                     const std::uint8_t (&views)[2], std::uint32_t* own, std::uint32_t* opponent) {
    const RelationBoard board(record);
    const SquareCodes codes(pieces);
    const RelationView relation_views[2] = {RelationView(views[0]), RelationView(views[1])};
    std::uint32_t* const bags[2] = {own, opponent};
    std::uint32_t first = set.first_relation;
    std::uint32_t count = 0;
    if (set.threats != nullptr) {
        count = write_threats(*set.threats, board, codes, relation_views, first, count, bags);
        first += set.threats->num_inputs;
    }
    if (!set.pawn_pairs) return count;
    return write_pawn_pairs(board, codes, relation_views, first, count, bags);
}

// Returns how many relations fit in a bag that has so many features of pieces.
[[nodiscard]] inline std::uint32_t relations_that_fit(const FeatureSet& set, std::uint32_t num_pieces,
                                                      std::uint32_t num_relations) {
    const std::uint32_t capacity = set.max_active - num_pieces;
    return num_relations < capacity ? num_relations : capacity;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::chess
