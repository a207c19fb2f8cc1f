#include "chess/formats/viriformat/native/format.h"

#include "chess/native/files/codec.h"
#include "chess/native/formats/game_writer.h"

namespace sparsepool::viriformat {
namespace {

class Writer final : public chess::WordGameWriter {
    [[nodiscard]] const char* find_start_problem(const chess::Entry& entry) const override {
        return chess::find_marlin_board_problem(entry.position);
    }

    void append_header(std::vector<std::uint8_t>& bytes, const chess::Entry& entry) const override {
        bytes.resize(bytes.size() + chess::kMarlinBytes);
        chess::write_marlin_record(entry, 0, bytes.data() + bytes.size() - chess::kMarlinBytes);
    }

    [[nodiscard]] std::uint16_t encode_move_word(const chess::Entry& entry) const override {
        constexpr Kind kKinds[] = {Kind::kNormal, Kind::kPromotion, Kind::kCastling, Kind::kEnPassant};  // by MoveType
        const chess::Move move = entry.move;
        const auto kind = static_cast<unsigned>(kKinds[static_cast<unsigned>(move.type())]);
        const unsigned promotion = move.type() == chess::MoveType::kPromotion ? move.word & 3U : 0U;
        return static_cast<std::uint16_t>(move.from() | move.to() << 6 | promotion << 12 | kind << 14);
    }
};

}  // namespace

const chess::Codec& codec() {
    static const chess::GameCodec<Kernels, Writer, Game::kHeader> instance;
    return instance;
}

}  // namespace sparsepool::viriformat
