#pragma once

#include <cstddef>
#include <cstdint>

namespace sparsepool::fuzz {

// What each target defines: checks one input, aborts if something does not hold (FUZZ_REQUIRE).
void check_input(const std::uint8_t* data, std::size_t size);

}  // namespace sparsepool::fuzz
