#include "fold/adam.h"

#include "bind/bind.h"
#include "bind/source_lists.h"

namespace nb = nanobind;
namespace sparsepool {
namespace {

AdamSettings checked(const AdamSettings& settings) {
    require(settings.step >= 1, "step must be at least 1, not ", settings.step);
    return settings;
}

void adam_list(const OutArray& weights, const Array& old, const OutArray& mean, const OutArray& square,
               const std::vector<Array>& sources, const Places& places, double learning_rate, double beta1,
               double beta2, double epsilon, double weight_decay, bool decoupled, double step, double scale,
               std::size_t threads) {
    const AdamSettings settings = checked({learning_rate, beta1, beta2, epsilon, weight_decay, decoupled, step, scale});
    require(weights.ndim() == 1, "weights has ", weights.ndim(), " dimensions, must have 1");
    const std::size_t size = weights.shape(0);
    const AdamTensors tensors{floats<float>(weights, "weights", size), floats<const float>(old, "old", size),
                              floats<float>(mean, "mean", size), floats<float>(square, "square", size)};
    const Sources from = dense_sources(sources, places, size);
    const nb::gil_scoped_release release;
    adam(tensors, settings, size, from, threads);
}

void adam_row_list(const OutArray& weights, const Array& old, const OutArray& mean, const OutArray& square,
                   const RowPairs& sources, const Places& places, double learning_rate, double beta1, double beta2,
                   double epsilon, double weight_decay, bool decoupled, double step, double scale,
                   std::size_t first_row, bool touched_only, std::size_t threads) {
    const AdamSettings settings = checked({learning_rate, beta1, beta2, epsilon, weight_decay, decoupled, step, scale});
    const Matrix to = matrix<float>(weights, "weights");
    const auto same = [&](const auto& array, const char* name) {
        const ConstMatrix found = matrix<const float>(array, name);
        require(found.rows == to.rows && found.columns == to.columns, name, " is [", found.rows, ", ", found.columns,
                "], but weights is [", to.rows, ", ", to.columns, "]");
    };
    same(old, "old");
    same(mean, "mean");
    same(square, "square");
    const AdamTensors tensors{to.data, static_cast<const float*>(old.data()), static_cast<float*>(mean.data()),
                              static_cast<float*>(square.data())};
    const std::vector<RowSource> from = row_sources(sources, places, "weights", to.rows, to.columns);
    const nb::gil_scoped_release release;
    adam_rows(tensors, settings, to.rows, to.columns, from, first_row, touched_only, threads);
}

}  // namespace

void bind_adam(nb::module_& module) {
    module.def(
        "adam", &adam_list, nb::arg("weights"), nb::arg("old"), nb::arg("mean"), nb::arg("square"), nb::arg("sources"),
        nb::kw_only(), nb::arg("places") = nb::none(), nb::arg("learning_rate"), nb::arg("beta1"), nb::arg("beta2"),
        nb::arg("epsilon"), nb::arg("weight_decay"), nb::arg("decoupled"), nb::arg("step"), nb::arg("scale") = 1.0,
        nb::arg("threads") = 1,
        R"(A step of Adam whose gradient is the fold of the sources, in one pass; the formula is in pool/native/fold/adam.h.

All float32 [n]. weights are written, old are those of the version before (or the same memory); mean and square,
the moments, change in place. `step` counts from 1. The same bits as `fold` and then this with the sum alone.)");
    module.def("adam_rows", &adam_row_list, nb::arg("weights"), nb::arg("old"), nb::arg("mean"), nb::arg("square"),
               nb::arg("sources"), nb::kw_only(), nb::arg("places") = nb::none(), nb::arg("learning_rate"),
               nb::arg("beta1"), nb::arg("beta2"), nb::arg("epsilon"), nb::arg("weight_decay"), nb::arg("decoupled"),
               nb::arg("step"), nb::arg("scale") = 1.0, nb::arg("first_row") = 0, nb::arg("touched_only") = false,
               nb::arg("threads") = 1, R"(The same for a table [R, C] whose sources are those of `fold_rows`.

With `touched_only`, rows that no source touched keep their moments, and those of `weights` are not written.)");
}

}  // namespace sparsepool
