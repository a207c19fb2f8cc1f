#include "chess/native/census.h"

#include "chess/native/board/bitboard.h"

namespace sparsepool::chess {

void Census::add(std::span<const Record> records) {
    entries += records.size();
    for (const Record& record : records) {
        white_to_move += (record.flags & kBlackToMove) == 0 ? 1U : 0U;
        in_check += (record.flags & kInCheck) != 0 ? 1U : 0U;
        captures += (record.flags & kCapture) != 0 ? 1U : 0U;
        ++results[static_cast<std::size_t>(record.result + 1)];
        ++move_types[record.move >> 14];
        ++piece_counts[count_squares(record.occupied)];
        ++scores[static_cast<std::size_t>(record.score + 32768)];
        ++plies[record.ply];
    }
}

}  // namespace sparsepool::chess
