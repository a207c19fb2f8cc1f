#include "chess/formats/pgn/native/san.h"

#include <algorithm>
#include <optional>

#include "chess/native/board/destinations.h"

namespace sparsepool::pgn {
namespace {

using chess::Bitboard;
using chess::Move;
using chess::MoveType;
using chess::Position;

constexpr std::string_view kPieces = "PNBRQK";  // by type
constexpr std::string_view kPromotions = "NBRQ";
constexpr std::string_view kSmallPromotions = "nbrq";
constexpr std::string_view kFiles = "abcdefgh";
constexpr std::string_view kRanks = "12345678";

constexpr Bitboard file_of(std::size_t file) { return Bitboard{0x0101010101010101} << file; }
constexpr Bitboard rank_of(std::size_t rank) { return Bitboard{0xFF} << (8 * rank); }

Bitboard of_type(const Position& position, unsigned type) {
    const Bitboard queens = position.orthogonal_sliders() & position.diagonal_sliders();
    switch (type) {
        case chess::kPawn: return position.pawns();
        case chess::kKnight: return position.knights();
        case chess::kBishop: return position.diagonal_sliders() & ~queens;
        case chess::kRook: return position.rooks();
        case chess::kQueen: return queens;
        default: return position.kings();
    }
}

bool is_legal(const Position& position, Move move) {
    Position next = position;
    return chess::play<chess::Variant::kChess960>(next, move) == chess::MoveFault::kNone &&
           !chess::king_is_attacked(next, position.side);
}

// The move of a piece, castling aside.
Move plain_move(const Position& position, unsigned from, unsigned to, unsigned promotion) {
    const bool pawn = (position.pawns() & chess::bit_of(from)) != 0;
    if (pawn && chess::promotes_next(position.side, from))
        return encode_move(MoveType::kPromotion, from, to, promotion);
    const bool passing = pawn && to == position.ep_square && ((from ^ to) & 7) != 0;
    return encode_move(passing ? MoveType::kEnPassant : MoveType::kNormal, from, to);
}

// Squares among `from` whose piece of that type can legally move to `to`.
Bitboard origins(const Position& position, unsigned type, unsigned to, Bitboard from) {
    const Bitboard own = position.of_colour(position.side);
    Bitboard found = 0;
    for (Bitboard rest = of_type(position, type) & own & from; rest != 0; rest &= rest - 1) {
        const unsigned square = chess::first_square(rest);
        if ((chess::destinations(position, own, type, square) & chess::bit_of(to)) == 0) continue;
        if (is_legal(position, plain_move(position, square, to, 0))) found |= chess::bit_of(square);
    }
    return found;
}

SanFault parse_castling(const Position& position, bool queen_side, Move& move) {
    const unsigned right = 2U * position.side + (queen_side ? 1U : 0U);
    if ((position.castling >> right & 1U) == 0) return SanFault::kIllegal;
    const unsigned king = chess::king_square(position, position.side);
    move = encode_move(MoveType::kCastling, king, position.castling_rook_square(right));
    const unsigned goal = (king & 56) + (queen_side ? 2U : 6U);
    for (unsigned square = std::min(king, goal); square <= std::max(king, goal); ++square) {
        Position there = position;  // the king on its way, maybe over its rook
        there.remove_pieces(chess::bit_of(king) | chess::bit_of(square));
        there.put_piece(chess::bit_of(square), 2U * chess::kKing + position.side);
        if (chess::king_is_attacked(there, position.side)) return SanFault::kIllegal;
    }
    return is_legal(position, move) ? SanFault::kNone : SanFault::kIllegal;
}

// Of a king's move in the words of UCI: the wing to which it castles, if that is what it means: onto its own rook, or
// more than one file towards c or g.
std::optional<bool> queen_side_of(const Position& position, unsigned from, unsigned to) {
    const Bitboard own_rooks = position.rooks() & position.of_colour(position.side);
    const bool onto_rook = (own_rooks & chess::bit_of(to)) != 0;
    const unsigned files = std::max(from & 7, to & 7) - std::min(from & 7, to & 7);
    const bool far = from >> 3 == to >> 3 && files > 1 && ((to & 7) == 2 || (to & 7) == 6);
    if (!onto_rook && !far) return std::nullopt;
    return to < from;
}

// Takes the last letter if it is one of these; its number, or npos.
std::size_t take_last(std::string_view& text, std::string_view letters) {
    const std::size_t found = text.empty() ? std::string_view::npos : letters.find(text.back());
    if (found != std::string_view::npos) text.remove_suffix(1);
    return found;
}

bool has_reply(const Position& position) {
    const Bitboard own = position.of_colour(position.side);
    for (Bitboard pieces = own; pieces != 0; pieces &= pieces - 1) {
        const unsigned from = chess::first_square(pieces);
        Bitboard goals = chess::destinations(position, own, position.type_at(from), from);
        for (; goals != 0; goals &= goals - 1) {
            if (is_legal(position, plain_move(position, from, chess::first_square(goals), 0))) return true;
        }
    }
    return false;
}

}  // namespace

SanFault parse_san(std::string_view text, const Position& position, Move& move) {
    constexpr std::size_t kNone = std::string_view::npos;
    if (text.ends_with("e.p.")) text.remove_suffix(4);
    while (take_last(text, "!?+#") != kNone) {}
    if (text == "O-O" || text == "0-0") return parse_castling(position, false, move);
    if (text == "O-O-O" || text == "0-0-0") return parse_castling(position, true, move);
    std::size_t type = text.empty() ? kNone : kPieces.find(text.front());
    if (type != kNone) text.remove_prefix(1);
    const bool names_piece = type != kNone;
    if (type == kNone) type = chess::kPawn;
    std::size_t promotion = take_last(text, kPromotions);
    if (promotion == kNone && text.size() > 1) promotion = take_last(text, kSmallPromotions);
    if (promotion != kNone && text.ends_with('=')) text.remove_suffix(1);
    const std::size_t rank = take_last(text, kRanks);
    const std::size_t file = take_last(text, kFiles);
    if (rank == kNone || file == kNone) return SanFault::kNoMove;
    const bool takes = take_last(text, "x") != kNone;
    if (!takes) (void)take_last(text, "-");
    const std::size_t from_rank = take_last(text, kRanks);
    const std::size_t from_file = take_last(text, kFiles);
    if (!text.empty()) return SanFault::kNoMove;
    const auto to = static_cast<unsigned>(8 * rank + file);
    if (!names_piece && from_rank != kNone && from_file != kNone) {  // as UCI has it: g1f3, e1g1
        const auto square = static_cast<unsigned>(8 * from_rank + from_file);
        if ((position.of_colour(position.side) & chess::bit_of(square)) == 0) return SanFault::kIllegal;
        type = position.type_at(square);
        if (type == chess::kKing && promotion == kNone) {
            const std::optional<bool> queen_side = queen_side_of(position, square, to);
            if (queen_side) return parse_castling(position, *queen_side, move);
        }
    }
    Bitboard from = ~Bitboard{0};
    if (from_rank != kNone) from &= rank_of(from_rank);
    if (from_file != kNone) from &= file_of(from_file);
    if (type == chess::kPawn && from_file == kNone) from &= file_of(file);
    const bool promotes = type == chess::kPawn && rank == (position.side == chess::kWhite ? 7U : 0U);
    if (promotes != (promotion != kNone)) return SanFault::kIllegal;
    const Bitboard found = origins(position, static_cast<unsigned>(type), to, from);
    if (found == 0) return SanFault::kIllegal;
    if ((found & (found - 1)) != 0) return SanFault::kAmbiguous;
    move = plain_move(position, chess::first_square(found), to, promotes ? static_cast<unsigned>(promotion) : 0U);
    return SanFault::kNone;
}

char* write_san(const Position& position, Move move, char* out) {
    const unsigned from = move.from();
    const unsigned to = move.to();
    if (move.type() == MoveType::kCastling) {
        out = std::ranges::copy(std::string_view(to > from ? "O-O" : "O-O-O"), out).out;
    } else {
        const unsigned type = position.type_at(from);
        const bool takes = (position.occupied & chess::bit_of(to)) != 0 || move.type() == MoveType::kEnPassant;
        if (type == chess::kPawn) {
            if (takes) *out++ = kFiles[from & 7];
        } else {
            *out++ = kPieces[type];
            const Bitboard others = origins(position, type, to, ~chess::bit_of(from));
            const bool by_file = (others & file_of(from & 7)) == 0;
            const bool by_rank = !by_file && (others & rank_of(from >> 3)) == 0;
            if (others != 0 && !by_rank) *out++ = kFiles[from & 7];
            if (others != 0 && !by_file) *out++ = kRanks[from >> 3];
        }
        if (takes) *out++ = 'x';
        *out++ = kFiles[to & 7];
        *out++ = kRanks[to >> 3];
        if (move.type() == MoveType::kPromotion) {
            *out++ = '=';
            *out++ = kPromotions[move.word & 3U];
        }
    }
    Position next = position;
    if (chess::play<chess::Variant::kChess960>(next, move) == chess::MoveFault::kNone && chess::in_check(next)) {
        *out++ = has_reply(next) ? '+' : '#';
    }
    return out;
}

}  // namespace sparsepool::pgn
