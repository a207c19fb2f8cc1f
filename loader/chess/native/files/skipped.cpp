#include "chess/native/files/skipped.h"

#include <algorithm>

namespace sparsepool::chess {

// Returns the tally of a kind. Where it is the first of its kind, its place and reason are recorded.
SkippedTally::Kind& SkippedTally::record_first(Illegal illegal, std::string_view reason, std::uint64_t offset,
                                               std::uint64_t unit) {
    Kind& kind = kinds.at(static_cast<std::size_t>(illegal));
    if (kind.reason.empty()) {
        kind.offset = offset;
        kind.unit = unit;
        kind.reason = reason;
    }
    return kind;
}

void SkippedTally::add_entry(Illegal illegal, std::string_view reason, std::uint64_t offset, std::uint64_t unit) {
    ++record_first(illegal, reason, offset, unit).entries;
    cuts_units = true;
}

void SkippedTally::add_unit(Illegal illegal, std::string_view reason, std::uint64_t offset, std::uint64_t unit,
                            const Extent& extent, std::uint64_t entries) {
    Kind& kind = record_first(illegal, reason, offset, unit);
    kind.entries += entries;
    ++kind.units;
    extents.push_back(extent);
}

bool SkippedTally::is_empty() const {
    return std::ranges::all_of(kinds, [](const Kind& kind) { return kind.reason.empty(); });
}

}  // namespace sparsepool::chess
