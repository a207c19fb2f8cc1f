#include "chess/native/files/writer.h"

namespace sparsepool::chess {

std::vector<std::pair<std::string, std::uint64_t>> EntryWriter::changes() const {
    constexpr const char* kSubstitutions[] = {
        // by bit of EntryPart
        "castling rights unknown, written as none",
        "en passant unknown, written as none",
        "half-move clock unknown, written as 0",
        "ply unknown, written as 0",
    };
    std::vector<std::pair<std::string, std::uint64_t>> changes;
    for (std::size_t i = 0; i < substituted_.size(); ++i) {
        if (substituted_[i] != 0) changes.emplace_back(kSubstitutions[i], substituted_[i]);
    }
    if (clamped_clocks_ != 0) {
        const std::string max = std::to_string(max_clock_);
        changes.emplace_back("half-move clock beyond " + max + ", written as " + max, clamped_clocks_);
    }
    if (unscored_ != 0) changes.emplace_back("no score, written as 32002, which only this program knows", unscored_);
    return changes;
}

}  // namespace sparsepool::chess
