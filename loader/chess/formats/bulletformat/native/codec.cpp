#include "chess/formats/bulletformat/native/format.h"

#include <cstring>

#include "chess/native/files/codec.h"
#include "chess/native/formats/storable.h"

namespace sparsepool::bulletformat {
namespace {

// Returns the position as the side to move sees it: for Black, ranks and colours are swapped.
chess::Position from_mover_view(const chess::Position& position) {
    if (position.side == chess::kWhite) return position;
    chess::Position flipped;
    flipped.occupied = __builtin_bswap64(position.occupied);  // each byte is a rank
    for (unsigned i = 0; i < 4; ++i) flipped.planes[i] = __builtin_bswap64(position.planes[i]);
    flipped.planes[0] ^= flipped.occupied;  // the colours
    return flipped;
}

class Writer final : public chess::EntryWriter {
  public:
    [[nodiscard]] std::string add(const chess::Entry& entry) override {
        if (const char* problem = chess::find_result_problem(entry)) return problem;
        count_unscored(entry);
        const chess::Position seen = from_mover_view(entry.position);
        std::uint8_t bytes[kBytes] = {};  // laid out as format.h says
        chess::write_nibbles(seen, 0, bytes);
        std::memcpy(bytes + 24, &entry.score, sizeof entry.score);
        bytes[26] = static_cast<std::uint8_t>(entry.result + 1);
        bytes[27] = static_cast<std::uint8_t>(king_square(seen, chess::kWhite));
        bytes[28] = static_cast<std::uint8_t>(king_square(seen, chess::kBlack) ^ 56U);
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

}  // namespace sparsepool::bulletformat
