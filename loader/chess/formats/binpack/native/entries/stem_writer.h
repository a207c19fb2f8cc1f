#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chess/native/board/position.h"

// The packed entry that begins a chain, written.
namespace sparsepool::binpack {

// Returns why the format can't hold the entry as the first of a chain; an empty text if it can.
[[nodiscard]] std::string find_stem_problem(const chess::Entry& entry);

// Appends the 32 bytes of stem.h.
void append_stem(std::vector<std::uint8_t>& bytes, const chess::Entry& entry);

}  // namespace sparsepool::binpack
