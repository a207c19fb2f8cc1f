#include "chess/native/board/fen.h"

#include <charconv>
#include <optional>
#include <vector>

#include "chess/native/board/rules.h"

namespace sparsepool::chess {
namespace {

constexpr std::string_view kPieceLetters = "PpNnBbRrQqKk";  // by piece code
constexpr std::string_view kCastlingLetters = "KQkq";       // by bit
constexpr std::string_view kPromotionLetters = "nbrq";

char* write_square(unsigned square, char* out) {
    *out++ = static_cast<char>('a' + (square & 7));
    *out++ = static_cast<char>('1' + (square >> 3));
    return out;
}

char* write_number(unsigned number, char* out) { return std::to_chars(out, out + 10, number).ptr; }

char* write_board(const Position& position, char* out) {
    for (unsigned rank = 8; rank-- > 0;) {
        int empty = 0;
        for (unsigned square = 8 * rank; square < 8 * rank + 8; ++square) {
            if ((position.occupied & bit_of(square)) == 0) {
                ++empty;
                continue;
            }
            if (empty != 0) *out++ = static_cast<char>('0' + empty);
            empty = 0;
            *out++ = kPieceLetters[position.code_at(square)];
        }
        if (empty != 0) *out++ = static_cast<char>('0' + empty);
        if (rank != 0) *out++ = '/';
    }
    return out;
}

// As Shredder's FEN names them, by file, if a rook of them stands in no corner; a right whose rook could not be on that
// side of its king has no such name.
char* write_castling(const Position& position, char* out) {
    if (position.castling == 0) *out++ = '-';
    const bool corners = castles_from_corners(position);
    for (unsigned bit = 0; bit < 4; ++bit) {
        if ((position.castling >> bit & 1U) == 0) continue;
        const unsigned file = position.castling_rook(bit) & 7U;
        const unsigned king = king_square(position, bit / 2) & 7U;
        const bool has_name = !corners && (file > king) == (bit % 2 == 0);
        *out++ = has_name ? static_cast<char>((bit < 2 ? 'A' : 'a') + file) : kCastlingLetters[bit];
    }
    return out;
}

bool parse_square(std::string_view text, unsigned& square) {
    if (text.size() != 2 || text[0] < 'a' || text[0] > 'h' || text[1] < '1' || text[1] > '8') return false;
    square = static_cast<unsigned>(text[0] - 'a') + 8 * static_cast<unsigned>(text[1] - '1');
    return true;
}

bool parse_number(std::string_view text, unsigned& number) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    return error == std::errc{} && stop == end && number <= 65535;
}

std::vector<std::string_view> split(std::string_view text) {
    std::vector<std::string_view> fields;
    while (!text.empty()) {
        const std::size_t end = text.find(' ');
        if (end != 0) fields.push_back(text.substr(0, end));
        text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    }
    return fields;
}

std::string parse_board(std::string_view text, Position& position) {
    unsigned rank = 7;
    unsigned file = 0;
    for (const char letter : text) {
        if (letter == '/') {
            if (file != 8 || rank == 0) return "a rank has not 8 squares, or there are not 8 ranks";
            --rank;
            file = 0;
        } else if (letter >= '1' && letter <= '8') {
            file += static_cast<unsigned>(letter - '0');
        } else {
            const std::size_t code = kPieceLetters.find(letter);
            if (code == std::string_view::npos) return std::string("no piece has the letter ") + letter;
            if (file >= 8) return "a rank has more than 8 squares";
            if (count_squares(position.occupied) == 32) return "more than 32 pieces";
            position.drop(bit_of(8 * rank + file), static_cast<unsigned>(code));
            ++file;
        }
        if (file > 8) return "a rank has more than 8 squares";
    }
    if (rank != 0 || file != 8) return "a rank has not 8 squares, or there are not 8 ranks";
    return has_one_king_each(position) ? std::string{} : "a side has not exactly one king";
}

// The right of a letter of KQkq, or of the file of its rook. One of KQkq is that of the corner's rook, or if there is
// none, of the outermost one on that side of the king.
bool grant_castling(char letter, Position& position) {
    const std::size_t known = kCastlingLetters.find(letter);
    const bool white = letter < 'a';
    const auto file = static_cast<unsigned>(letter - (white ? 'A' : 'a'));
    if (known == std::string_view::npos && file >= 8) return false;
    const unsigned base = white ? 0 : 56;
    const unsigned king = king_square(position, white ? kWhite : kBlack);
    unsigned bit = static_cast<unsigned>(known);
    unsigned rook = file;
    if (known == std::string_view::npos) {
        bit = (white ? 0U : 2U) + (file > (king & 7) ? 0U : 1U);
    } else {
        const Bitboard rooks =
            position.rooks() & position.of_colour(white ? kWhite : kBlack) & (Bitboard{0xFF} << base);
        const bool king_side = bit % 2 == 0;
        const Bitboard beyond = king_side ? rooks & ~(bit_of(king) - 1) : rooks & (bit_of(king) - 1);
        rook = king_side ? 7 : 0;
        if ((rooks & bit_of(base + rook)) == 0 && beyond != 0 && (king & 56) == base) {
            rook = (king_side ? 63U - static_cast<unsigned>(__builtin_clzll(beyond)) : first_square(beyond)) & 7U;
        }
    }
    position.castling = static_cast<std::uint8_t>(position.castling | 1U << bit);
    position.set_castling_rook(bit, rook);
    return true;
}

std::string parse_state(const std::vector<std::string_view>& fields, Position& position) {
    if (fields[1] != "w" && fields[1] != "b") return "the side to move must be w or b";
    position.side = fields[1] == "w" ? kWhite : kBlack;
    if (fields.size() < 3) return {};
    for (const char letter : fields[2] == "-" ? std::string_view{} : fields[2]) {
        if (!grant_castling(letter, position)) return "castling rights must be - or letters of KQkq";
    }
    if (fields.size() < 4) return {};
    unsigned passed = kNoSquare;
    if (fields[3] != "-" && !parse_square(fields[3], passed)) return "the en-passant field must be - or a square";
    position.ep_square = static_cast<std::uint8_t>(passed);
    if (fields.size() < 5) return {};
    unsigned clock = 0;
    if (!parse_number(fields[4], clock)) return "the half-move clock must be 0 to 65535";
    position.rule50 = static_cast<std::uint8_t>(clock);  // modulo 256, as readers keep it
    return {};
}

// The number of the castling right that a king's move to that side would use.
unsigned right_of(const Position& position, unsigned from, unsigned to) {
    return 2U * position.side + (to > from ? 0U : 1U);
}

bool is_corner(unsigned square) { return (square & 7) == 0 || (square & 7) == 7; }

// The move type that the stored word needs.
MoveType type_of(const Position& position, unsigned from, unsigned to) {
    const Bitboard own = position.of_colour(position.side);
    const Bitboard piece = bit_of(from) & own;
    const unsigned home = position.side == kWhite ? kE1 : kE8;
    if ((piece & position.kings()) != 0 && (from & 56) == (home & 56)) {
        const unsigned right = right_of(position, from, to);
        const unsigned rook = position.castling_rook(right);
        const bool held = from == home || (position.castling >> right & 1U) != 0;
        const bool onto_rook = to == rook && (bit_of(to) & position.rooks() & own) != 0;
        const bool two_steps = from == home && (to == home + 2 || to == home - 2);
        if ((onto_rook && held) || (two_steps && is_corner(rook))) return MoveType::kCastling;
    }
    const bool slanted = ((from ^ to) & 7) != 0;
    const bool passing = (piece & position.pawns()) != 0 && to == position.ep_square && slanted;
    return passing ? MoveType::kEnPassant : MoveType::kNormal;
}

}  // namespace

char* write_fen(const Position& position, unsigned move_number, char* out) {
    out = write_board(position, out);
    *out++ = ' ';
    *out++ = position.side == kWhite ? 'w' : 'b';
    *out++ = ' ';
    out = write_castling(position, out);
    *out++ = ' ';
    if (position.ep_square == kNoSquare) {
        *out++ = '-';
    } else {
        out = write_square(position.ep_square, out);
    }
    *out++ = ' ';
    out = write_number(position.rule50, out);
    *out++ = ' ';
    return write_number(move_number, out);
}

char* write_uci(Move move, char* out) {
    if (move.word == 0) {
        for (int i = 0; i < 4; ++i) *out++ = '0';
        return out;
    }
    unsigned to = move.to();
    if (move.type() == MoveType::kCastling && (move.from() & 7) == 4 && is_corner(to)) {
        to = (move.from() & 56) + (to > move.from() ? 6 : 2);
    }
    out = write_square(to, write_square(move.from(), out));
    if (move.type() == MoveType::kPromotion) *out++ = kPromotionLetters[move.promotion() - kKnight];
    return out;
}

std::string parse_fen(std::string_view text, Position& position) {
    std::optional<unsigned> number;
    return parse_fen(text, 4, position, number);
}

std::string parse_fen(std::string_view text, std::size_t least, Position& position, std::optional<unsigned>& number) {
    position = Position{};
    const std::vector<std::string_view> fields = split(text);
    if (fields.size() < least || fields.size() > 6) {
        return "a FEN has " + std::to_string(least) + " to 6 fields, not " + std::to_string(fields.size());
    }
    std::string fault = parse_board(fields[0], position);
    if (fault.empty()) fault = parse_state(fields, position);
    unsigned read = 0;
    number.reset();
    if (fields.size() == 6 && parse_number(fields[5], read) && read != 0) number = read;
    return fault;
}

std::string parse_uci(std::string_view text, const Position& position, Move& move) {
    move = Move{};
    if (text == "0000") return {};
    unsigned from = 0;
    unsigned to = 0;
    if (text.size() < 4 || text.size() > 5 || !parse_square(text.substr(0, 2), from) ||
        !parse_square(text.substr(2, 2), to)) {
        return "a move is written like e2e4 or e7e8q";
    }
    if (text.size() == 5) {
        const std::size_t promotion = kPromotionLetters.find(text[4]);
        if (promotion == std::string_view::npos) return "a promotion's letter is one of n, b, r, q";
        move = make_move(MoveType::kPromotion, from, to, static_cast<unsigned>(promotion));
        return {};
    }
    const MoveType type = type_of(position, from, to);
    if (type == MoveType::kCastling) to = position.castling_rook(right_of(position, from, to));
    move = make_move(type, from, to);
    return {};
}

}  // namespace sparsepool::chess
