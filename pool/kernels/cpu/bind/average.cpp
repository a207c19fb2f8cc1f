#include "average/average.h"

#include "bind/arrays.h"
#include "bind/bind.h"

namespace sparsepool {
namespace {

void add(const OutArray& average, const Array& weights, float rate, std::size_t threads) {
    require(average.ndim() == 1, "average has ", average.ndim(), " dimensions, must have 1");
    const std::size_t size = average.shape(0);
    float* to = floats<float>(average, "average", size);
    const float* from = floats<const float>(weights, "weights", size);
    const nanobind::gil_scoped_release release;
    add_to_average(to, from, size, rate, threads);
}

}  // namespace

void bind_average(nanobind::module_& module) {
    module.def("add_to_average", &add, nanobind::arg("average"), nanobind::arg("weights"), nanobind::kw_only(),
               nanobind::arg("rate"), nanobind::arg("threads") = 1,
               R"(average += rate * (weights - average), both float32 [n].)");
}

}  // namespace sparsepool
