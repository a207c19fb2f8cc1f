#include "crc32c.h"

#include "arrays.h"
#include "bind.h"

void bind_crc32c(nanobind::module_& module) {
    module.def(
        "crc32c",
        [](const Array& data, std::uint32_t before) {
            sparsepool::require(data.dtype() == nanobind::dtype<std::uint8_t>(), "data must be uint8");
            require_shape(data, "data", 1);
            const nanobind::gil_scoped_release release;
            return sparsepool::crc32c(static_cast<const std::uint8_t*>(data.data()), data.shape(0), before);
        },
        nanobind::arg("data"), nanobind::arg("before") = 0);
}
