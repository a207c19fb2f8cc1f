#pragma once

#include <cstdint>
#include <vector>

#include "base/matrix.h"
#include "base/numbers.h"

// Rows of a table by lists of feature numbers, of which row 0 is `first_row`. Lists must be strictly ascending, and
// those of `copy_rows` and `mark_rows` within the table: std::invalid_argument if not.
namespace sparsepool {

// Writes to `out`, ascending, the rows from `first` to below `last` that any of the lists has. Returns how many.
std::size_t union_rows(std::uint32_t* out, const std::vector<Numbers>& lists, std::size_t first, std::size_t last);

// Copies the rows of `list` that are not in `but_not`.
void copy_rows(Matrix out, ConstMatrix from, const Numbers& list, const Numbers& but_not, std::size_t first_row,
               std::size_t threads);

// Sets a bit for each row of a list: bit r % 64 of word r / 64.
void mark_rows(std::uint64_t* words, std::size_t size, const Numbers& list, std::size_t first_row);

}  // namespace sparsepool
