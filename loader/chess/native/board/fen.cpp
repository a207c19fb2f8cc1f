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

// Writes a rank as FEN has it: letters of pieces, and the lengths of runs of empty squares.
char* write_rank(const Position& position, unsigned rank, char* out) {
    int num_empty = 0;
    for (unsigned square = 8 * rank; square < 8 * rank + 8; ++square) {
        if ((position.occupied & bit_of(square)) == 0) {
            ++num_empty;
            continue;
        }
        if (num_empty != 0) *out++ = static_cast<char>('0' + num_empty);
        num_empty = 0;
        *out++ = kPieceLetters[position.code_at(square)];
    }
    if (num_empty != 0) *out++ = static_cast<char>('0' + num_empty);
    return out;
}

char* write_board(const Position& position, char* out) {
    for (unsigned rank = 8; rank-- > 0;) {
        out = write_rank(position, rank, out);
        if (rank != 0) *out++ = '/';
    }
    return out;
}

// Writes castling rights as KQkq, or, if one of their rooks is not in a corner, by the rooks' files (Shredder-FEN). A
// right whose rook is not on the right side of its king can't be named by a file.
char* write_castling(const Position& position, char* out) {
    if (position.castling == 0) *out++ = '-';
    const bool all_in_corners = castles_from_corners(position);
    for (unsigned bit = 0; bit < 4; ++bit) {
        if ((position.castling >> bit & 1U) == 0) continue;
        const unsigned rook_file = position.castling_rook_square(bit) & 7U;
        const unsigned king_file = king_square(position, bit / 2) & 7U;
        const bool is_king_side = bit % 2 == 0;
        const bool by_file = !all_in_corners && (rook_file > king_file) == is_king_side;
        const char first_file = bit < 2 ? 'A' : 'a';  // White's letters are capitals
        *out++ = by_file ? static_cast<char>(first_file + rook_file) : kCastlingLetters[bit];
    }
    return out;
}

bool parse_square(std::string_view text, unsigned& square) {
    if (text.size() != 2 || text[0] < 'a' || text[0] > 'h' || text[1] < '1' || text[1] > '8') return false;
    square = static_cast<unsigned>(text[0] - 'a') + 8 * static_cast<unsigned>(text[1] - '1');
    return true;
}

// Parses a text of digits alone. A number that does not fit becomes the largest, which no field allows.
bool parse_number(std::string_view text, unsigned& number) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc::result_out_of_range) number = std::numeric_limits<unsigned>::max();
    return error != std::errc::invalid_argument && stop == end;
}

struct Fields {
    std::array<std::string_view, 6> texts;
    std::size_t count = 0;  // of all fields, also of those beyond the sixth
};

// Splits a FEN at its spaces; several in a row count as one.
Fields split_fields(std::string_view fen) {
    Fields fields;
    std::size_t begin = 0;
    while (begin < fen.size()) {
        const std::size_t end = std::min(fen.find(' ', begin), fen.size());
        if (end != begin) {
            if (fields.count < fields.texts.size()) fields.texts[fields.count] = fen.substr(begin, end - begin);
            ++fields.count;
        }
        begin = end + 1;
    }
    return fields;
}

// What a letter of a FEN's board means. By this table a board is read without branches: its letters are as good as
// random, and branches on them would be mispredicted. Flags are 0 or 1.
struct Letter {
    Bitboard planes[4] = {};  // bits of the piece's code
    Bitboard piece = 0;       // flag
    std::uint32_t width = 0;  // in squares
    std::uint32_t slash = 0;  // flag
    std::uint32_t digit = 0;  // flag
    std::uint32_t wrong = 0;  // flag: FEN has no such letter
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

// Reads the first field of a FEN into a position without pieces. Returns false for a wrong board; find_board_problem
// finds out why it is wrong.
bool read_board(std::string_view board, Position& position) {
    Bitboard planes[4] = {};
    Bitboard occupied = 0;
    std::uint32_t square = 0;  // in the order of FEN: a8 is 0, b8 is 1, h1 is 63
    std::uint32_t slashes = 0;
    std::uint32_t wrong = 0;
    std::uint32_t after_digit = 0;
    for (const char character : board) {
        const Letter& letter = kLetters.data()[static_cast<std::uint8_t>(character)];
        for (unsigned i = 0; i < 4; ++i) planes[i] |= letter.planes[i] << (square & 63U);
        occupied |= letter.piece << (square & 63U);
        square += letter.width;
        slashes += letter.slash;
        const std::uint32_t misplaced_slash = (0U - letter.slash) & (square ^ 8 * slashes);
        const std::uint32_t two_digits = after_digit & letter.digit;
        wrong |= letter.wrong | two_digits | misplaced_slash;
        after_digit = letter.digit;
    }
    wrong |= (square ^ 64U) | (slashes ^ 7U);
    // Swapping bytes reverses the ranks: from a8 = 0 to a1 = 0.
    position.occupied = __builtin_bswap64(occupied);
    for (unsigned i = 0; i < 4; ++i) position.planes[i] = __builtin_bswap64(planes[i]);
    return wrong == 0 && count_squares(occupied) <= 32 && has_one_king_each(position);
}

// Returns what is wrong with a board that read_board refuses.
[[gnu::cold]] std::string find_board_problem(std::string_view text) {
    constexpr char kWrongRanks[] = "a rank has not 8 squares, or there are not 8 ranks";
    unsigned rank = 7;
    unsigned file = 0;
    unsigned pieces = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char letter = text[i];
        if (letter == '/') {
            if (file != 8 || rank == 0) return kWrongRanks;
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
    if (rank != 0 || file != 8) return kWrongRanks;
    return kNotOneKingEach;
}

// Returns the file of the rook that a letter of KQkq means: the rook in the corner, or if there is none, the outermost
// rook on that side of a king on its first rank (X-FEN).
unsigned find_castling_rook_file(const Position& position, unsigned colour, bool is_king_side) {
    const unsigned first_square_of_rank = colour == kWhite ? 0 : 56;
    const unsigned corner_file = is_king_side ? 7 : 0;
    const unsigned king = king_square(position, colour);
    const Bitboard rank = Bitboard{0xFF} << first_square_of_rank;
    const Bitboard rooks = position.rooks() & position.of_colour(colour) & rank;
    if ((rooks & bit_of(first_square_of_rank + corner_file)) != 0 || (bit_of(king) & rank) == 0) return corner_file;
    const Bitboard below_king = bit_of(king) - 1;
    const Bitboard rooks_on_side = is_king_side ? rooks & ~below_king : rooks & below_king;
    if (rooks_on_side == 0) return corner_file;
    const unsigned outermost = is_king_side ? last_square(rooks_on_side) : first_square(rooks_on_side);
    return outermost & 7U;
}

// Adds the castling right of a letter: one of KQkq, or the file of its rook (Shredder-FEN). Returns false for any other
// letter and for a right that the position has already.
bool add_castling_right(char letter, Position& position) {
    const bool is_white = letter < 'a';
    const unsigned colour = is_white ? kWhite : kBlack;
    const auto file = static_cast<unsigned>(letter - (is_white ? 'A' : 'a'));
    const std::size_t index = kCastlingLetters.find(letter);
    unsigned bit = 0;
    unsigned rook_file = file;
    if (index != std::string_view::npos) {
        bit = static_cast<unsigned>(index);
        rook_file = find_castling_rook_file(position, colour, bit % 2 == 0);
    } else if (file < 8) {
        position.chess960 = true;
        const bool is_king_side = file > (king_square(position, colour) & 7);
        bit = 2 * colour + (is_king_side ? 0U : 1U);
    } else {
        return false;
    }
    const bool is_new = (position.castling >> bit & 1U) == 0;
    position.castling = static_cast<std::uint8_t>(position.castling | 1U << bit);
    position.set_castling_rook_file(bit, rook_file);
    return is_new;
}

// Parses the fields from the side to move to the half-move clock, as many as there are. Returns what is wrong, or
// nothing.
std::string parse_state(const Fields& fields, Position& position) {
    const auto& [board, side, castling, en_passant, clock, move_number] = fields.texts;
    if (side != "w" && side != "b") return "the side to move must be w or b";
    position.side = side == "w" ? kWhite : kBlack;
    if (fields.count < 3) return {};
    if (castling != "-") {
        for (const char letter : castling) {
            if (!add_castling_right(letter, position)) return "castling rights must be - or letters of KQkq, each once";
        }
    }
    if (fields.count < 4) return {};
    unsigned ep_square = kNoSquare;
    if (en_passant != "-" && !parse_square(en_passant, ep_square)) return "the en-passant field must be - or a square";
    position.ep_square = static_cast<std::uint8_t>(ep_square);
    if (fields.count < 5) return {};
    unsigned rule50 = 0;
    if (!parse_number(clock, rule50) || rule50 > 65535) return "the half-move clock must be 0 to 65535";
    position.rule50 = static_cast<std::uint16_t>(rule50);
    return {};
}

// Returns the bit number of the castling right that a king's move to that side would use.
unsigned castling_right_bit(const Position& position, unsigned from, unsigned to) {
    return 2U * position.side + (to > from ? 0U : 1U);
}

bool is_on_edge_file(unsigned square) { return (square & 7) == 0 || (square & 7) == 7; }

// Whether a king's move castles: onto the rook of a right, or two steps from e1 or e8 towards a rook in its corner.
bool is_castling(const Position& position, unsigned from, unsigned to) {
    const unsigned home = position.side == kWhite ? kE1 : kE8;
    if ((from & 56) != (home & 56)) return false;
    const unsigned right = castling_right_bit(position, from, to);
    const unsigned rook = position.castling_rook_square(right);
    const bool may_castle = from == home || (position.castling >> right & 1U) != 0;
    const Bitboard own_rooks = position.rooks() & position.of_colour(position.side);
    const bool onto_rook = to == rook && (bit_of(to) & own_rooks) != 0;
    if (onto_rook && may_castle) return true;
    const bool two_steps = from == home && (to == home + 2 || to == home - 2);
    return two_steps && is_on_edge_file(rook);
}

// Returns the type of a move that is not a promotion.
MoveType find_move_type(const Position& position, unsigned from, unsigned to) {
    const Bitboard piece = bit_of(from) & position.of_colour(position.side);
    if ((piece & position.kings()) != 0 && is_castling(position, from, to)) return MoveType::kCastling;
    const bool changes_file = ((from ^ to) & 7) != 0;
    const bool is_en_passant = (piece & position.pawns()) != 0 && to == position.ep_square && changes_file;
    return is_en_passant ? MoveType::kEnPassant : MoveType::kNormal;
}

}  // namespace

// Writes: board side castling en-passant clock move-number.
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

// Castling onto the rook becomes the king's two-step move, but not in Chess960.
char* write_uci(Move move, bool chess960, char* out) {
    if (move.word == 0) {
        for (int i = 0; i < 4; ++i) *out++ = '0';
        return out;
    }
    unsigned to = move.to();
    if (move.type() == MoveType::kCastling && !chess960 && (move.from() & 7) == 4 && is_on_edge_file(to)) {
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

std::string parse_fen(std::string_view text, std::size_t min_fields, Position& position, unsigned& move_number,
                      std::uint8_t& missing_parts) {
    position = Position{};
    move_number = 0;
    const Fields fields = split_fields(text);
    if (fields.count < min_fields || fields.count > fields.texts.size()) [[unlikely]] {
        return "a FEN has " + std::to_string(min_fields) + " to 6 fields, not " + std::to_string(fields.count);
    }
    if (!read_board(fields.texts[0], position)) [[unlikely]]
        return find_board_problem(fields.texts[0]);
    if (fields.count == 6 && !parse_number(fields.texts[5], move_number)) move_number = 0;
    // The parts of fields 3, 4 and 5 are the bits 0, 1 and 2: those of the fields that there are fall out.
    constexpr unsigned kParts = kRightsPart | kEnPassantPart | kClockPart;
    const unsigned missing_fields = kParts << (fields.count - 2) & kParts;
    missing_parts = static_cast<std::uint8_t>(missing_fields | (move_number == 0 ? unsigned{kPlyPart} : 0U));
    std::string problem = parse_state(fields, position);
    if (position.castling != 0 && implies_chess960(position)) position.chess960 = true;
    return problem;
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
    const MoveType type = find_move_type(position, from, to);
    if (type != MoveType::kCastling) return encode_move(type, from, to);
    const unsigned rook = position.castling_rook_square(castling_right_bit(position, from, to));
    return encode_move(type, from, rook);
}

}  // namespace sparsepool::chess
