#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "chess/native/board/legality.h"

namespace sparsepool::chess {

// A whole unit that was skipped, in the bytes that are read.
struct Extent {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t number = 0;  // of units before it
};

// Counts what a walk has skipped, by kind: an Illegal, or kNone for what can't be read.
struct SkippedTally {
    struct Kind {
        std::uint64_t entries = 0;
        std::uint64_t units = 0;   // of these, whole ones
        std::uint64_t offset = 0;  // of the first, in the bytes that are read
        std::uint64_t unit = 0;    // that it is of, by the number that Damage has
        std::string reason;        // what is wrong with it
    };
    std::array<Kind, kNumIllegal> kinds{};
    std::vector<Extent> extents;  // of the whole units, ascending
    bool cuts_units = false;      // entries were skipped of units whose other entries stay

    // Counts an entry of a unit whose other entries may stay. `offset`, `unit`: of the fault, as Damage has them.
    void add_entry(Illegal illegal, std::string_view reason, std::uint64_t offset, std::uint64_t unit);

    // Counts a whole unit, which has so many entries as far as that can be known.
    void add_unit(Illegal illegal, std::string_view reason, std::uint64_t offset, std::uint64_t unit,
                  const Extent& extent, std::uint64_t entries = 1);

    [[nodiscard]] bool is_empty() const;

  private:
    Kind& record_first(Illegal illegal, std::string_view reason, std::uint64_t offset, std::uint64_t unit);
};

}  // namespace sparsepool::chess
