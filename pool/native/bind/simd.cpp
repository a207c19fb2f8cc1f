#include "simd.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"

namespace nb = nanobind;

void bind_simd(nb::module_& module) {
    module.def("simd_level", [] { return sparsepool::kernels().name; });
    module.def("simd_levels", &sparsepool::simd_levels);
    module.def("set_simd_level", &sparsepool::set_simd_level, nb::arg("level"));
    module.def("build_info", &sparsepool::build_info);
}
