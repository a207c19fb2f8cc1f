#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chess/native/board/position.h"

// The packed entry that begins a chain, written.
namespace sparsepool::binpack {

// Why the format can't hold the entry as the first of a chain; empty if it can.
[[nodiscard]] std::string find_stem_problem(const chess::Entry& entry);

// Appends the 32 bytes.
void append_stem(std::vector<std::uint8_t>& bytes, const chess::Entry& entry);

}  // namespace sparsepool::binpack
