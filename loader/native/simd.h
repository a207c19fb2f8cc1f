#pragma once

#include <string>
#include <vector>

#include "kernels.h"

// Which build of the hot code runs: the widest that this CPU has, unless a test or benchmark says otherwise.
// All give the same bytes.
namespace sparsepool {

[[nodiscard]] const Kernels& kernels();

// Those that this CPU can run, narrowest first:
// - baseline: any x86-64, any other machine
// - avx2: AVX2, BMI, BMI2, POPCNT, LZCNT
// - avx512: these and AVX-512 F, BW, DQ, VL, VBMI, VBMI2, GFNI (Ice Lake, Zen 4 and later)
[[nodiscard]] std::vector<std::string> simd_levels();

// For the whole process, from the next call of the library on. False if this CPU has no level of that name.
[[nodiscard]] bool set_simd_level(const std::string& name);

}  // namespace sparsepool
