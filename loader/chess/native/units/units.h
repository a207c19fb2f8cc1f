#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chess/native/files/file.h"
#include "chess/native/record.h"

// Units of a format as bytes: what a tool moves without decoding it into something else.
namespace sparsepool::chess {

// Units (records, lines, games or chains), one after another. Each has been decoded once, so it is good.
struct UnitBlock {
    std::string bytes;
    std::vector<std::uint64_t> ends;           // of each in `bytes`
    std::vector<std::uint32_t> entries;        // of each
    std::optional<stream::SourceFault> fault;  // behind them, or behind one more
    std::vector<stream::SkippedData> skipped;  // by kind
    std::vector<CountedReason> unscored;       // as Walk has it
    bool cuts_units = false;                   // entries were left out of units: their bytes can't be used
};

// Reads the units of a piece of a file, up to damage. A last line without a line feed gets one.
[[nodiscard]] UnitBlock read_units(const EntryFile& file, std::size_t piece);

// Cuts a file that a writer has written into its units. Throws std::invalid_argument for any other bytes.
[[nodiscard]] UnitBlock cut_units(const Codec& codec, std::string_view file);

// Appends the units `order` of `bytes` to `out`. Unit i is [begins[i], ends[i]), which must be within the bytes.
void append_units(std::string_view bytes, std::span<const std::uint64_t> begins, std::span<const std::uint64_t> ends,
                  std::span<const std::uint64_t> order, std::string& out);

// Returns the first entry of each unit, which must be good; zeros for a game without moves. Unit i begins at begins[i].
[[nodiscard]] std::vector<Record> first_entries(const Codec& codec, std::string_view bytes,
                                                std::span<const std::uint64_t> begins);

}  // namespace sparsepool::chess
