#include "chess/native/board/fen.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "chess/native/board/legality.h"
#include "common/utf8.h"

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
        const unsigned file = position.castling_rook_square(bit) & 7U;
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

// Of digits alone; a number beyond any that is allowed is the largest.
bool parse_number(std::string_view text, unsigned& number) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc::result_out_of_range) number = std::numeric_limits<unsigned>::max();
    return error != std::errc::invalid_argument && stop == end;
}

struct Fields {
    std::array<std::string_view, 6> texts;
    std::size_t count = 0;  // with those behind the sixth
};

Fields split(std::string_view text) {
    Fields fields;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        if (end != 0 && fields.count++ < fields.texts.size()) fields.texts[fields.count - 1] = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return fields;
}

// What a letter of a FEN's board does, so that reading one needs no branch: the plan of a board is as good as random.
struct Letter {
    Bitboard planes[4] = {};  // 0 or 1, of a piece
    Bitboard piece = 0;       // 0 or 1
    std::uint32_t width = 0;  // squares
    std::uint32_t slash = 0;  // 0 or 1
    std::uint32_t digit = 0;  // 0 or 1
    std::uint32_t wrong = 0;  // 0 or 1: there is no such letter
};

consteval std::array<Letter, 256> make_letters() {
    std::array<Letter, 256> letters{};
    for (Letter& letter : letters) letter.wrong = 1;
    for (unsigned code = 0; code < kPieceLetters.size(); ++code) {
        Letter& letter = letters[static_cast<std::uint8_t>(kPieceLetters[code])];
        letter = {.piece = 1, .width = 1};
        for (unsigned i = 0; i < 4; ++i) letter.planes[i] = code >> i & 1;
    }
    for (unsigned width = 1; width <= 8; ++width) letters['0' + width] = {.width = width, .digit = 1};
    letters['/'] = {.slash = 1};
    return letters;
}

constexpr std::array<Letter, 256> kLetters = make_letters();

// Of a position without pieces. Whether it is a sound board; find_board_problem says what is wrong else.
bool read_board(std::string_view text, Position& position) {
    Bitboard planes[4] = {};
    Bitboard occupied = 0;
    std::uint32_t place = 0;  // squares before: a8 is 0
    std::uint32_t slashes = 0;
    std::uint32_t wrong = 0;
    std::uint32_t digit = 0;  // was before
    for (const char each : text) {
        const Letter& letter = kLetters.data()[static_cast<std::uint8_t>(each)];
        for (unsigned i = 0; i < 4; ++i) planes[i] |= letter.planes[i] << (place & 63U);
        occupied |= letter.piece << (place & 63U);
        place += letter.width;
        slashes += letter.slash;
        wrong |= letter.wrong | (digit & letter.digit) | ((0U - letter.slash) & (place ^ 8 * slashes));
        digit = letter.digit;
    }
    position.occupied = __builtin_bswap64(occupied);
    for (unsigned i = 0; i < 4; ++i) position.planes[i] = __builtin_bswap64(planes[i]);
    return (wrong | (place ^ 64U) | (slashes ^ 7U)) == 0 && count_squares(occupied) <= 32 &&
           has_one_king_each(position);
}

// Of a board that is not sound.
[[gnu::cold]] std::string find_board_problem(std::string_view text) {
    unsigned rank = 7;
    unsigned file = 0;
    unsigned pieces = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char letter = text[i];
        if (letter == '/') {
            if (file != 8 || rank == 0) return "a rank has not 8 squares, or there are not 8 ranks";
            --rank;
            file = 0;
        } else if (letter >= '1' && letter <= '8') {
            if (i != 0 && text[i - 1] >= '1' && text[i - 1] <= '8') return "two numbers of empty squares in a row";
            file += static_cast<unsigned>(letter - '0');
        } else {
            if (kPieceLetters.find(letter) == std::string_view::npos)
                return "no piece has the letter " + shown(letter_at(text, i));
            if (file < 8 && ++pieces > 32) return "more than 32 pieces";
            ++file;
        }
        if (file > 8) return "a rank has more than 8 squares";
    }
    if (rank != 0 || file != 8) return "a rank has not 8 squares, or there are not 8 ranks";
    return kNotOneKingEach;
}

// The right of a letter of KQkq, or of the file of its rook. One of KQkq is that of the corner's rook, or if there is
// none, of the outermost one on that side of the king. False for a letter that is none, or a right that is held.
bool add_castling_right(char letter, Position& position) {
    const std::size_t known = kCastlingLetters.find(letter);
    const bool white = letter < 'a';
    const auto file = static_cast<unsigned>(letter - (white ? 'A' : 'a'));
    if (known == std::string_view::npos && file >= 8) return false;
    const unsigned base = white ? 0 : 56;
    const unsigned king = king_square(position, white ? kWhite : kBlack);
    unsigned bit = static_cast<unsigned>(known);
    unsigned rook = file;
    if (known == std::string_view::npos) {
        position.chess960 = true;
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
    const bool is_new = (position.castling >> bit & 1U) == 0;
    position.castling = static_cast<std::uint8_t>(position.castling | 1U << bit);
    position.set_castling_rook_file(bit, rook);
    return is_new;
}

std::string parse_state(const Fields& found, Position& position) {
    const auto& fields = found.texts;
    if (fields[1] != "w" && fields[1] != "b") return "the side to move must be w or b";
    position.side = fields[1] == "w" ? kWhite : kBlack;
    if (found.count < 3) return {};
    for (const char letter : fields[2] == "-" ? std::string_view{} : fields[2]) {
        if (!add_castling_right(letter, position)) return "castling rights must be - or letters of KQkq, each once";
    }
    if (found.count < 4) return {};
    unsigned passed = kNoSquare;
    if (fields[3] != "-" && !parse_square(fields[3], passed)) return "the en-passant field must be - or a square";
    position.ep_square = static_cast<std::uint8_t>(passed);
    if (found.count < 5) return {};
    unsigned clock = 0;
    if (!parse_number(fields[4], clock) || clock > 65535) return "the half-move clock must be 0 to 65535";
    position.rule50 = static_cast<std::uint16_t>(clock);
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
        const unsigned rook = position.castling_rook_square(right);
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

char* write_fen(const Position& position, unsigned move_number, char* out, unsigned fields) {
    out = write_board(position, out);
    *out++ = ' ';
    *out++ = position.side == kWhite ? 'w' : 'b';
    if (fields < 3) return out;
    *out++ = ' ';
    out = write_castling(position, out);
    if (fields < 4) return out;
    *out++ = ' ';
    if (position.ep_square == kNoSquare) {
        *out++ = '-';
    } else {
        out = write_square(position.ep_square, out);
    }
    if (fields < 5) return out;
    *out++ = ' ';
    out = write_number(position.rule50, out);
    if (fields < 6) return out;
    *out++ = ' ';
    return write_number(move_number, out);
}

unsigned count_fen_fields(const Entry& entry) {
    static_assert(kRightsPart == 1U << 0 && kEnPassantPart == 1U << 1 && kClockPart == 1U << 2 && kPlyPart == 1U << 3);
    return 2U + (entry.missing_parts == 0 ? 4U : first_square(entry.missing_parts));
}

char* write_uci(Move move, bool chess960, char* out) {
    if (move.word == 0) {
        for (int i = 0; i < 4; ++i) *out++ = '0';
        return out;
    }
    unsigned to = move.to();
    if (move.type() == MoveType::kCastling && !chess960 && (move.from() & 7) == 4 && is_corner(to)) {
        to = (move.from() & 56) + (to > move.from() ? 6 : 2);
    }
    out = write_square(to, write_square(move.from(), out));
    if (move.type() == MoveType::kPromotion) *out++ = kPromotionLetters[move.promotion() - kKnight];
    return out;
}

std::string parse_fen(std::string_view text, Position& position) {
    unsigned number = 0;
    std::uint8_t missing_parts = 0;
    return parse_fen(text, 4, position, number, missing_parts);
}

std::string parse_fen(std::string_view text, std::size_t least, Position& position, unsigned& number,
                      std::uint8_t& missing_parts) {
    position = Position{};
    number = 0;
    const Fields fields = split(text);
    if (fields.count < least || fields.count > fields.texts.size()) [[unlikely]] {
        return "a FEN has " + std::to_string(least) + " to 6 fields, not " + std::to_string(fields.count);
    }
    if (!read_board(fields.texts[0], position)) [[unlikely]]
        return find_board_problem(fields.texts[0]);
    if (fields.count == 6 && !parse_number(fields.texts[5], number)) number = 0;
    constexpr unsigned kParts = kRightsPart | kEnPassantPart | kClockPart;
    missing_parts =
        static_cast<std::uint8_t>((kParts << (fields.count - 2) & kParts) | (number == 0 ? unsigned{kPlyPart} : 0U));
    std::string wrong = parse_state(fields, position);
    position.chess960 = position.chess960 || (position.castling != 0 && implies_chess960(position));
    return wrong;
}

const char* describe_missing_part(unsigned missing) {
    if ((missing & kRightsPart) != 0) return "the FEN has no castling rights, and a filter needs them";
    if ((missing & kClockPart) != 0) return "the FEN has no half-move clock, and a filter needs it";
    if ((missing & kPlyPart) != 0) return "the FEN has no move number: no ply is known, and a filter needs it";
    return nullptr;
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
        move = encode_move(MoveType::kPromotion, from, to, static_cast<unsigned>(promotion));
        return {};
    }
    move = resolve_move(position, from, to);
    return {};
}

Move resolve_move(const Position& position, unsigned from, unsigned to) {
    const MoveType type = type_of(position, from, to);
    if (type == MoveType::kCastling) to = position.castling_rook_square(right_of(position, from, to));
    return encode_move(type, from, to);
}

}  // namespace sparsepool::chess
