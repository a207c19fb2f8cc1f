#include "common/crc32c.h"

#include "bind/arrays.h"
#include "bind/bind.h"

namespace sparsepool {
void bind_crc32c(nanobind::module_& module) {
    module.def(
        "crc32c",
        [](const Array& data, std::uint32_t before) {
            require(data.dtype() == nanobind::dtype<std::uint8_t>(), "data must be uint8");
            require_shape(data, "data", 1);
            const nanobind::gil_scoped_release release;
            return crc32c(static_cast<const std::uint8_t*>(data.data()), data.shape(0), before);
        },
        nanobind::arg("data"), nanobind::arg("before") = 0,
        R"(CRC-32C (RFC 3720 B.4) of uint8 [n], going on from the sum of what came before it.)");
}

}  // namespace sparsepool
