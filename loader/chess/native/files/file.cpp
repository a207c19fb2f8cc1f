#include "chess/native/files/file.h"

#include "chess/native/board/legality.h"

namespace sparsepool::chess {

std::vector<stream::SkippedData> EntryFile::skipped(std::size_t piece, const Piece& read,
                                                    const SkippedTally& tally) const {
    std::vector<stream::SkippedData> skipped;
    for (std::size_t i = 0; i < tally.kinds.size(); ++i) {
        const SkippedTally::Kind& kind = tally.kinds[i];
        if (kind.reason.empty()) continue;
        skipped.push_back({chess::describe(static_cast<Illegal>(i)),
                           fault_of(piece, read, {kind.offset, kind.unit, kind.reason, false}), kind.entries,
                           kind.units, codec_.units().word()});
    }
    return skipped;
}

}  // namespace sparsepool::chess
