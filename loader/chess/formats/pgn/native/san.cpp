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

constexpr std::size_t kNone = std::string_view::npos;

constexpr Bitboard file_bitboard(std::size_t file) { return Bitboard{0x0101010101010101} << file; }
constexpr Bitboard rank_bitboard(std::size_t rank) { return Bitboard{0xFF} << (8 * rank); }

Bitboard pieces_of_type(const Position& position, unsigned type) {
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

// Whether a pseudo-legal move does not leave the own king in check.
bool is_legal(const Position& position, Move move) {
    Position next = position;
    return chess::play<chess::Variant::kChess960>(next, move) == chess::MoveFault::kNone &&
           !chess::king_is_attacked(next, position.side);
}

// Returns a piece's move between two squares, which is not castling. `promotion` is used only if the move promotes.
Move build_move(const Position& position, unsigned from, unsigned to, unsigned promotion) {
    const bool is_pawn = (position.pawns() & chess::bit_of(from)) != 0;
    if (is_pawn && chess::promotes_next(position.side, from))
        return encode_move(MoveType::kPromotion, from, to, promotion);
    const bool changes_file = ((from ^ to) & 7) != 0;
    const bool is_en_passant = is_pawn && to == position.ep_square && changes_file;
    return encode_move(is_en_passant ? MoveType::kEnPassant : MoveType::kNormal, from, to);
}

// Returns the squares among `from` whose piece is of this type and can legally move to `to`.
Bitboard find_origins(const Position& position, unsigned type, unsigned to, Bitboard from) {
    const Bitboard own = position.of_colour(position.side);
    Bitboard origins = 0;
    Bitboard candidates = pieces_of_type(position, type) & own & from;
    for (; candidates != 0; candidates &= candidates - 1) {
        const unsigned square = chess::first_square(candidates);
        if ((chess::destinations(position, own, type, square) & chess::bit_of(to)) == 0) continue;
        if (is_legal(position, build_move(position, square, to, 0))) origins |= chess::bit_of(square);
    }
    return origins;
}

SanFault parse_castling(const Position& position, bool queen_side, Move& move) {
    const unsigned right = 2U * position.side + (queen_side ? 1U : 0U);
    if ((position.castling >> right & 1U) == 0) return SanFault::kIllegal;
    const unsigned king = chess::king_square(position, position.side);
    move = encode_move(MoveType::kCastling, king, position.castling_rook_square(right));
    const unsigned target = (king & 56) + (queen_side ? 2U : 6U);
    // No square of the king's way may be attacked. In Chess960 the way may lead over the own rook.
    for (unsigned square = std::min(king, target); square <= std::max(king, target); ++square) {
        Position on_way = position;
        on_way.remove_pieces(chess::bit_of(king) | chess::bit_of(square));
        on_way.put_piece(chess::bit_of(square), 2U * chess::kKing + position.side);
        if (chess::king_is_attacked(on_way, position.side)) return SanFault::kIllegal;
    }
    return is_legal(position, move) ? SanFault::kNone : SanFault::kIllegal;
}

// Returns whether a king's move in UCI's notation castles queen-side or king-side; nothing if it does not castle. It
// castles onto its own rook, or more than one file towards the c- or g-file.
std::optional<bool> find_queen_side(const Position& position, unsigned from, unsigned to) {
    const Bitboard own_rooks = position.rooks() & position.of_colour(position.side);
    const bool onto_rook = (own_rooks & chess::bit_of(to)) != 0;
    const unsigned from_file = from & 7;
    const unsigned to_file = to & 7;
    const unsigned distance = std::max(from_file, to_file) - std::min(from_file, to_file);
    const bool on_rank = from >> 3 == to >> 3;
    const bool is_far = on_rank && distance > 1 && (to_file == 2 || to_file == 6);
    if (!onto_rook && !is_far) return std::nullopt;
    return to < from;
}

// Removes the last letter of the text if it is one of `letters`. Returns its index among them, or npos.
std::size_t consume_last(std::string_view& text, std::string_view letters) {
    if (text.empty()) return kNone;
    const std::size_t index = letters.find(text.back());
    if (index != kNone) text.remove_suffix(1);
    return index;
}

bool has_legal_move(const Position& position) {
    const Bitboard own = position.of_colour(position.side);
    for (Bitboard pieces = own; pieces != 0; pieces &= pieces - 1) {
        const unsigned from = chess::first_square(pieces);
        Bitboard targets = chess::destinations(position, own, position.type_at(from), from);
        for (; targets != 0; targets &= targets - 1) {
            if (is_legal(position, build_move(position, from, chess::first_square(targets), 0))) return true;
        }
    }
    return false;
}

// The parts of a move in SAN or UCI's notation, as indices; npos for parts that it does not name.
struct MoveParts {
    std::size_t type = kNone;
    std::size_t from_file = kNone;
    std::size_t from_rank = kNone;
    std::size_t to_file = kNone;
    std::size_t to_rank = kNone;
    std::size_t promotion = kNone;
};

// Splits a move that is not castling, from its end: Ng1xf3, e7e8=Q. Returns false if it names no square to move to or
// has other letters.
bool split_move(std::string_view text, MoveParts& parts) {
    parts.type = text.empty() ? kNone : kPieces.find(text.front());
    if (parts.type != kNone) text.remove_prefix(1);
    parts.promotion = consume_last(text, kPromotions);
    if (parts.promotion == kNone && text.size() > 1) parts.promotion = consume_last(text, kSmallPromotions);
    if (parts.promotion != kNone && text.ends_with('=')) text.remove_suffix(1);
    parts.to_rank = consume_last(text, kRanks);
    parts.to_file = consume_last(text, kFiles);
    if (parts.to_rank == kNone || parts.to_file == kNone) return false;
    const bool has_x = consume_last(text, "x") != kNone;
    if (!has_x) (void)consume_last(text, "-");
    parts.from_rank = consume_last(text, kRanks);
    parts.from_file = consume_last(text, kFiles);
    return text.empty();
}

// Finds the one legal move of the position that has these parts. A move without a piece is a pawn's.
SanFault find_move(const Position& position, const MoveParts& parts, Move& move) {
    const bool is_pawn = parts.type == chess::kPawn;
    Bitboard from = ~Bitboard{0};
    if (parts.from_rank != kNone) from &= rank_bitboard(parts.from_rank);
    if (parts.from_file != kNone) from &= file_bitboard(parts.from_file);
    if (is_pawn && parts.from_file == kNone) from &= file_bitboard(parts.to_file);
    const std::size_t last_rank = position.side == chess::kWhite ? 7 : 0;
    const bool promotes = is_pawn && parts.to_rank == last_rank;
    if (promotes != (parts.promotion != kNone)) return SanFault::kIllegal;
    const auto to = static_cast<unsigned>(8 * parts.to_rank + parts.to_file);
    const Bitboard origins = find_origins(position, static_cast<unsigned>(parts.type), to, from);
    if (origins == 0) return SanFault::kIllegal;
    const bool is_ambiguous = (origins & (origins - 1)) != 0;  // more than one
    if (is_ambiguous) return SanFault::kAmbiguous;
    const unsigned promotion = promotes ? static_cast<unsigned>(parts.promotion) : 0U;
    move = build_move(position, chess::first_square(origins), to, promotion);
    return SanFault::kNone;
}

// Writes the piece, and of its square as much as tells it from others that can legally move to `to`.
char* write_piece(const Position& position, unsigned type, unsigned from, unsigned to, char* out) {
    *out++ = kPieces[type];
    const Bitboard others = find_origins(position, type, to, ~chess::bit_of(from));
    if (others == 0) return out;
    const bool file_suffices = (others & file_bitboard(from & 7)) == 0;
    const bool rank_suffices = (others & rank_bitboard(from >> 3)) == 0;
    if (file_suffices || !rank_suffices) *out++ = kFiles[from & 7];
    if (!file_suffices) *out++ = kRanks[from >> 3];
    return out;
}

// Writes a move that is not castling.
char* write_piece_move(const Position& position, Move move, char* out) {
    const unsigned from = move.from();
    const unsigned to = move.to();
    const unsigned type = position.type_at(from);
    const bool is_capture = (position.occupied & chess::bit_of(to)) != 0 || move.type() == MoveType::kEnPassant;
    if (type != chess::kPawn) {
        out = write_piece(position, type, from, to, out);
    } else if (is_capture) {
        *out++ = kFiles[from & 7];
    }
    if (is_capture) *out++ = 'x';
    *out++ = kFiles[to & 7];
    *out++ = kRanks[to >> 3];
    if (move.type() == MoveType::kPromotion) {
        *out++ = '=';
        *out++ = kPromotions[move.word & 3U];
    }
    return out;
}

}  // namespace

SanFault parse_san(std::string_view text, const Position& position, Move& move) {
    if (text.ends_with("e.p.")) text.remove_suffix(4);
    while (consume_last(text, "!?+#") != kNone) {}
    if (text == "O-O" || text == "0-0") return parse_castling(position, false, move);
    if (text == "O-O-O" || text == "0-0-0") return parse_castling(position, true, move);
    MoveParts parts;
    if (!split_move(text, parts)) return SanFault::kNoMove;
    const bool is_uci = parts.type == kNone && parts.from_rank != kNone && parts.from_file != kNone;  // g1f3, e1g1
    if (parts.type == kNone) parts.type = chess::kPawn;
    if (is_uci) {
        const auto from = static_cast<unsigned>(8 * parts.from_rank + parts.from_file);
        const auto to = static_cast<unsigned>(8 * parts.to_rank + parts.to_file);
        if ((position.of_colour(position.side) & chess::bit_of(from)) == 0) return SanFault::kIllegal;
        parts.type = position.type_at(from);
        if (parts.type == chess::kKing && parts.promotion == kNone) {
            const std::optional<bool> queen_side = find_queen_side(position, from, to);
            if (queen_side) return parse_castling(position, *queen_side, move);
        }
    }
    return find_move(position, parts, move);
}

char* write_san(const Position& position, Move move, char* out) {
    if (move.type() == MoveType::kCastling) {
        const bool king_side = move.to() > move.from();
        out = std::ranges::copy(std::string_view(king_side ? "O-O" : "O-O-O"), out).out;
    } else {
        out = write_piece_move(position, move, out);
    }
    Position next = position;
    const bool is_played = chess::play<chess::Variant::kChess960>(next, move) == chess::MoveFault::kNone;
    if (is_played && chess::in_check(next)) *out++ = has_legal_move(next) ? '+' : '#';
    return out;
}

}  // namespace sparsepool::pgn
