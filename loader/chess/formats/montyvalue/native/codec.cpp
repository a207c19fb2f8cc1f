#include "chess/formats/montyvalue/native/format.h"

#include <algorithm>
#include <cstring>

#include "chess/native/files/codec.h"
#include "chess/native/formats/game_writer.h"
#include "chess/native/formats/storable.h"

namespace sparsepool::montyvalue {
namespace {

class Writer final : public chess::WordGameWriter {
    [[nodiscard]] const char* find_start_problem(const chess::Entry& entry) const override {
        if (const char* problem = chess::find_castling_problem(entry.position)) return problem;
        return chess::find_en_passant_problem(entry.position);
    }

    // The layout is that of format.h.
    void append_header(std::vector<std::uint8_t>& bytes, const chess::Entry& entry) const override {
        const chess::Position& position = entry.position;
        const chess::Bitboard kings = position.kings();
        const chess::Bitboard queens = position.orthogonal_sliders() & position.diagonal_sliders();
        const chess::Bitboard bishops = position.diagonal_sliders() & ~queens;
        const chess::Bitboard boards[] = {position.planes[0], position.rooks() | queens | kings,
                                          position.knights() | bishops | kings, position.pawns() | bishops | queens};
        std::uint8_t header[Game::kHeader] = {};
        std::memcpy(header, boards, sizeof boards);
        header[32] = position.side;
        header[33] = position.ep_square == chess::kNoSquare ? std::uint8_t{0} : position.ep_square;
        header[35] = static_cast<std::uint8_t>(std::min<unsigned>(position.rule50, chess::kMarlinClock));
        const std::uint16_t move_number = chess::move_number_of(entry);
        std::memcpy(header + 36, &move_number, sizeof move_number);
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned bit = kRightOrder[i];
            const bool has_right = (position.castling >> bit & 1U) != 0;
            header[34] = static_cast<std::uint8_t>(header[34] | (has_right ? 8U >> i : 0U));
            header[38 + i] = static_cast<std::uint8_t>(position.castling_rook_square(bit) & 7U);
        }
        header[42] = static_cast<std::uint8_t>(chess::white_result(entry) + 1);
        bytes.insert(bytes.end(), header, header + sizeof header);
    }

    // Returns from << 10 | to << 4 | flag.
    [[nodiscard]] std::uint16_t encode_move_word(const chess::Entry& entry) const override {
        const chess::Move move = entry.move;
        const unsigned from = move.from();
        unsigned to = move.to();
        const unsigned flag = find_flag(entry.position, move);
        if (move.type() == chess::MoveType::kCastling) to = (from & 56) + (flag == kKingSide ? 6 : 2);
        return static_cast<std::uint16_t>(from << 10 | to << 4 | flag);
    }

    // Returns the flag (Flag) of a move; for a promotion with the piece in the low bits.
    [[nodiscard]] static unsigned find_flag(const chess::Position& position, chess::Move move) {
        const unsigned from = move.from();
        const unsigned to = move.to();
        if (move.type() == chess::MoveType::kCastling) return to > from ? kKingSide : kQueenSide;
        if (move.type() == chess::MoveType::kEnPassant) return kEnPassant;
        const bool is_pawn = (position.pawns() >> from & 1) != 0;
        if (is_pawn && (from ^ to) == 16) return kDoublePush;
        const bool is_capture = (position.occupied >> to & 1) != 0;
        const unsigned capture = is_capture ? unsigned{kCapture} : unsigned{kQuiet};
        if (move.type() != chess::MoveType::kPromotion) return capture;
        return capture | kPromotion | (move.word & 3U);
    }
};

}  // namespace

const chess::Codec& codec() {
    static const chess::GameCodec<Kernels, Writer, Game::kHeader> instance;
    return instance;
}

}  // namespace sparsepool::montyvalue
