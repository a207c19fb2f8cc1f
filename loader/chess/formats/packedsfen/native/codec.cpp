#include "chess/formats/packedsfen/native/format.h"

#include <algorithm>
#include <cstring>

#include "chess/native/files/codec.h"
#include "chess/native/formats/storable.h"

namespace sparsepool::packedsfen {
namespace {

constexpr unsigned kLongestClock = 127;

class BitWriter {
  public:
    explicit BitWriter(std::uint8_t* bytes) : bytes_(bytes) {}

    void put(unsigned value, unsigned count) {
        for (unsigned i = 0; i < count; ++i, ++at_) {
            bytes_[at_ / 8] = static_cast<std::uint8_t>(bytes_[at_ / 8] | (value >> i & 1U) << (at_ % 8));
        }
    }

  private:
    std::uint8_t* bytes_;
    unsigned at_ = 0;
};

// 31 bytes at most, since there are at most 32 pieces.
void put_position(const chess::Position& position, unsigned number, std::uint8_t* out) {
    BitWriter bits(out);
    bits.put(position.side, 1);
    bits.put(king_square(position, chess::kWhite), 6);
    bits.put(king_square(position, chess::kBlack), 6);
    for (unsigned i = 0; i < 64; ++i) {
        const unsigned square = i ^ 56U;
        if ((position.kings() >> square & 1) != 0) continue;
        if ((position.occupied >> square & 1) == 0) {
            bits.put(0, 1);
        } else {
            bits.put(1 | position.type_at(square) << 1 | (position.code_at(square) & 1U) << 4, 5);
        }
    }
    bits.put(position.castling, 4);
    const bool passed = position.ep_square != chess::kNoSquare;
    bits.put(passed ? 1 : 0, 1);
    if (passed) bits.put(position.ep_square, 6);
    const unsigned clock = std::min<unsigned>(position.rule50, kLongestClock);
    bits.put(clock & 63U, 6);
    bits.put(number, 16);
    bits.put(clock >> 6, 1);
}

class Writer final : public chess::EntryWriter {
  public:
    [[nodiscard]] std::string add(const chess::Entry& entry) override {
        const chess::Position& position = entry.position;
        if (const char* wrong = chess::find_result_problem(entry)) return wrong;
        if (const char* wrong = chess::find_en_passant_problem(position)) return wrong;
        if (!castles_from_corners(position)) return "castling rights of Chess960 can't be stored";
        if (entry.move.word != 0) {
            if (const char* wrong = chess::find_stored_move_problem(entry)) return wrong;
        }
        count_changes(entry, 0, kLongestClock);
        std::uint8_t bytes[kBytes] = {};
        put_position(position, entry.ply / 2U + 1, bytes);
        constexpr Kind kKinds[] = {Kind::kNormal, Kind::kPromotion, Kind::kCastling, Kind::kEnPassant};  // by MoveType
        const auto kind = static_cast<unsigned>(kKinds[static_cast<unsigned>(entry.move.type())]);
        const auto word = static_cast<std::uint16_t>(entry.move.to() | entry.move.from() << 6 |
                                                     (entry.move.word & 3U) << 12 | kind << 14);
        std::memcpy(bytes + 32, &entry.score, 2);
        std::memcpy(bytes + 34, &word, 2);
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
