#include "chess/formats/packedsfen/native/format.h"

#include <algorithm>
#include <cstring>

#include "chess/native/files/codec.h"
#include "chess/native/formats/storable.h"

namespace sparsepool::packedsfen {
namespace {

constexpr unsigned kMaxClock = 127;

// Writes bits, the lowest of a byte first, into bytes that are zero.
class BitWriter {
  public:
    explicit BitWriter(std::uint8_t* bytes) : bytes_(bytes) {}

    void write(unsigned value, unsigned count) {
        for (unsigned i = 0; i < count; ++i, ++bit_) {
            std::uint8_t& byte = bytes_[bit_ / 8];
            byte = static_cast<std::uint8_t>(byte | (value >> i & 1U) << (bit_ % 8));
        }
    }

  private:
    std::uint8_t* bytes_;
    unsigned bit_ = 0;
};

// Writes the position of format.h: at most 31 bytes, since there are at most 32 pieces.
void write_position(const chess::Position& position, unsigned move_number, std::uint8_t* out) {
    BitWriter bits(out);
    bits.write(position.side, 1);
    bits.write(king_square(position, chess::kWhite), 6);
    bits.write(king_square(position, chess::kBlack), 6);
    for (unsigned i = 0; i < 64; ++i) {
        const unsigned square = i ^ 56U;  // a8 first
        const bool is_king = (position.kings() >> square & 1) != 0;
        const bool is_empty = (position.occupied >> square & 1) == 0;
        if (is_king) continue;
        if (is_empty) {
            bits.write(0, 1);
        } else {
            const unsigned colour = position.code_at(square) & 1U;
            bits.write(1 | position.type_at(square) << 1 | colour << 4, 5);
        }
    }
    bits.write(position.castling, 4);
    const bool has_ep_square = position.ep_square != chess::kNoSquare;
    bits.write(has_ep_square ? 1 : 0, 1);
    if (has_ep_square) bits.write(position.ep_square, 6);
    const unsigned clock = std::min<unsigned>(position.rule50, kMaxClock);
    bits.write(clock & 63U, 6);
    bits.write(move_number, 16);
    bits.write(clock >> 6, 1);
}

// Returns the move of format.h.
std::uint16_t encode_move_word(chess::Move move) {
    constexpr Kind kKinds[] = {Kind::kNormal, Kind::kPromotion, Kind::kCastling, Kind::kEnPassant};  // by MoveType
    const auto kind = static_cast<unsigned>(kKinds[static_cast<unsigned>(move.type())]);
    const unsigned promotion = move.word & 3U;
    return static_cast<std::uint16_t>(move.to() | move.from() << 6 | promotion << 12 | kind << 14);
}

class Writer final : public chess::EntryWriter {
  public:
    [[nodiscard]] std::string add(const chess::Entry& entry) override {
        const chess::Position& position = entry.position;
        if (const char* problem = chess::find_result_problem(entry)) return problem;
        if (const char* problem = chess::find_en_passant_problem(position)) return problem;
        if (!castles_from_corners(position)) return "castling rights of Chess960 can't be stored";
        if (entry.move.word != 0) {
            if (const char* problem = chess::find_stored_move_problem(entry)) return problem;
        }
        count_changes(entry, 0, kMaxClock);
        std::uint8_t bytes[kBytes] = {};
        write_position(position, entry.ply / 2U + 1, bytes);
        const std::uint16_t move_word = encode_move_word(entry.move);
        std::memcpy(bytes + 32, &entry.score, 2);
        std::memcpy(bytes + 34, &move_word, 2);
        std::memcpy(bytes + 36, &entry.ply, 2);
        bytes[38] = static_cast<std::uint8_t>(entry.result);
        output_.insert(output_.end(), bytes, bytes + kBytes);
        ++entries_;
        return {};
    }
    void finish() override {}
};

}  // namespace

const chess::Codec& codec() {
    static const chess::RecordCodec<Kernels, Writer, kBytes> instance;
    return instance;
}

}  // namespace sparsepool::packedsfen
