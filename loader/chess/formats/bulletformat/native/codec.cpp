#include "chess/formats/bulletformat/native/format.h"

#include <cstring>

#include "chess/native/files/codec.h"
#include "chess/native/formats/storable.h"

namespace sparsepool::bulletformat {
namespace {

// The position as the side to move sees it.
chess::Position seen_by_mover(const chess::Position& position) {
    if (position.side == chess::kWhite) return position;
    chess::Position seen;
    seen.occupied = __builtin_bswap64(position.occupied);
    for (unsigned i = 0; i < 4; ++i) seen.planes[i] = __builtin_bswap64(position.planes[i]);
    seen.planes[0] ^= seen.occupied;
    return seen;
}

class Writer final : public chess::EntryWriter {
  public:
    [[nodiscard]] std::string add(const chess::Entry& entry) override {
        if (const char* wrong = chess::find_result_problem(entry)) return wrong;
        count_unscored(entry);
        const chess::Position seen = seen_by_mover(entry.position);
        std::uint8_t bytes[kBytes] = {};
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
