#include "formats/binpack/census.h"

#include "chess/bitboard.h"

namespace sparsepool {

void Census::add(std::span<const chess::Record> records) {
    entries += records.size();
    for (const chess::Record& record : records) {
        white_to_move += (record.flags & chess::kBlackToMove) == 0 ? 1U : 0U;
        in_check += (record.flags & chess::kInCheck) != 0 ? 1U : 0U;
        captures += (record.flags & chess::kCapture) != 0 ? 1U : 0U;
        ++results[static_cast<std::size_t>(record.result + 1)];
        ++move_types[record.move >> 14];
        ++piece_counts[chess::count_squares(record.occupied)];
        ++scores[static_cast<std::size_t>(record.score + 32768)];
        ++plies[record.ply];
    }
}

}  // namespace sparsepool
