#include "simd.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/bind.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

void set_level(const std::string& name) {
    if (sparsepool::set_simd_level(name)) return;
    std::string allowed;
    for (const std::string& level : sparsepool::simd_levels()) allowed += (allowed.empty() ? "" : ", ") + level;
    throw nb::value_error(("SIMD level '" + name + "' is not one that this CPU has: " + allowed).c_str());
}

}  // namespace

void bind_simd(nb::module_& module) {
    module.def(
        "simd_level", [] { return std::string(sparsepool::kernels().name); },
        "The build of the hot code that runs.");
    module.def("simd_levels", &sparsepool::simd_levels, "Those that this CPU can run, narrowest first.");
    module.def("set_simd_level", &set_level, "name"_a, "For the whole process. Raises ValueError for another name.");
}
