#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Which build of the hot code runs: the widest that this CPU has, unless a test or benchmark says otherwise.
// All give the same bits.
namespace sparsepool {

enum class SimdLevel : std::uint8_t {
    kBaseline,  // any x86-64, any other machine
    kAvx2,      // AVX2, BMI, BMI2, POPCNT, LZCNT
};

[[nodiscard]] SimdLevel simd_level();

[[nodiscard]] std::vector<std::string> simd_levels();  // those that this CPU can run, narrowest first

[[nodiscard]] std::string simd_level_name(SimdLevel level);

// For the whole process, from the next call of the library on. False if this CPU has no level of that name.
[[nodiscard]] bool set_simd_level(const std::string& name);

}  // namespace sparsepool
