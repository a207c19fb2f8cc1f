#pragma once

#include <cstdint>
#include <string>

namespace sparsepool::binpack {

// Where data stops being usable, and why.
struct Damage {
    std::uint64_t offset = 0;          // bytes from the start of the file: of the chunk header, or of the stem
    std::uint32_t entry_in_chain = 0;  // inside a chunk: number of the first entry not delivered, the stem is 0
    std::string reason;
};

}  // namespace sparsepool::binpack
