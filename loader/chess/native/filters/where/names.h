#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "chess/native/record.h"

// What an expression may speak of: names that stand for something of an entry.
namespace sparsepool::chess::where {

enum class Type : std::uint8_t { kNumber, kCondition };

struct Name {
    std::string_view text;
    Type type;
    std::string_view part;  // of an entry that it needs, as loader/chess/filters has it; empty if every format has it
    std::string_view meaning;  // for documentation
    // values[i]: of records[i]; a condition is 1 or 0.
    void (*load)(std::span<const Record> records, double* values);
};

[[nodiscard]] std::span<const Name> names();

}  // namespace sparsepool::chess::where
