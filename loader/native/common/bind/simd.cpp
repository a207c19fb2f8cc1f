#include "common/simd.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "common/bind/bind.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool {
namespace {

std::vector<std::string> level_names() {
    std::vector<std::string> names;
    for (const simd::Level level : simd::levels()) names.push_back(simd::name_of(level));
    return names;
}

}  // namespace

void bind_simd(nb::module_& module) {
    module.def(
        "simd_level", [] { return simd::name_of(simd::level()); },
        "The build of the hot code that runs: \"baseline\", \"avx2\" or \"avx512\"; at first the best that this CPU "
        "has.");
    module.def("simd_levels", &level_names, "The levels that this CPU can run, narrowest first.");
    module.def("set_simd_level", &simd::set_level, "level"_a,
               "Chooses for the whole process, for tests and benchmarks; not while hot code runs. Raises ValueError.");
}

}  // namespace sparsepool
