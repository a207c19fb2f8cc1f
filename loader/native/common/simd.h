#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/isa.h"

// Which build of the hot code runs: the widest that this CPU has, unless a test or benchmark says otherwise. All builds
// give the same bits.
//
// A component lists its hot functions in a struct with three members, `static const Kernels baseline, avx2, avx512`.
// Its kernels.cpp defines `const Kernels Kernels::SPARSEPOOL_ISA{...}` and is compiled once per level.
namespace sparsepool::simd {

enum class Level : std::uint8_t { kBaseline, kAvx2, kAvx512 };

// Whether this CPU can run the builds of that level. Each module defines it beside the compiler options of its builds.
[[nodiscard]] bool can_run(Level level);

[[nodiscard]] Level level();
[[nodiscard]] std::string name_of(Level level);

// Those that this CPU can run, narrowest first.
[[nodiscard]] std::vector<Level> levels();

// For the whole process, from the next call on; not while hot code runs. Throws std::invalid_argument.
void set_level(const std::string& name);

// The functions of a component at the level in use.
template <class Kernels>
[[nodiscard]] const Kernels& kernels() {
#if defined(__x86_64__)
    switch (level()) {
        case Level::kAvx512: return Kernels::avx512;
        case Level::kAvx2: return Kernels::avx2;
        case Level::kBaseline: break;
    }
#endif
    return Kernels::baseline;
}

}  // namespace sparsepool::simd
