// Which level's kernels run: the best that this CPU has, unless a test or benchmark says otherwise.
#pragma once

#include <string>
#include <vector>

#include "kernels.h"

namespace sparsepool {

const Kernels& kernels();

std::vector<std::string> simd_levels();  // those that this CPU can run, narrowest first

// For the whole process; must not be called while kernels run. Throws std::invalid_argument.
void set_simd_level(const std::string& name);

// Compiler of this build, for the fingerprint of what may change bits.
std::string build_info();

}  // namespace sparsepool
