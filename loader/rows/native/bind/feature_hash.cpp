#include "rows/native/feature_hash.h"

#include <nanobind/nanobind.h>

#include "rows/native/bind/bind.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::rows {

void bind_feature_hash(nb::module_& module) {
    module.def(
        "xxh64", [](const nb::bytes& text, std::uint64_t seed) { return hash_of({text.c_str(), text.size()}, seed); },
        "text"_a, "seed"_a, "XXH64 of the bytes.");
}

}  // namespace sparsepool::rows
