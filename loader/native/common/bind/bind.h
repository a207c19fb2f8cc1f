#pragma once

#include <nanobind/nanobind.h>

// Bindings that both native modules have: each a copy of its own, for its own code.
namespace sparsepool {

void bind_crash_point(nanobind::module_& module);
void bind_simd(nanobind::module_& module);

}  // namespace sparsepool
