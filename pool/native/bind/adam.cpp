#include "adam.h"

#include "bind.h"
#include "sources.h"

namespace nb = nanobind;
using namespace sparsepool;

namespace {

AdamSettings checked(const AdamSettings& settings) {
    require(settings.step >= 1, "step must be at least 1, not ", settings.step);
    return settings;
}

void adam_list(const OutArray& weights, const Array& old, const OutArray& mean, const OutArray& square,
               const std::vector<Array>& sources, double learning_rate, double beta1, double beta2, double epsilon,
               double weight_decay, bool decoupled, double step, double scale, std::size_t threads) {
    const AdamSettings settings =
        checked({learning_rate, beta1, beta2, epsilon, weight_decay, decoupled, step, scale});
    require(weights.ndim() == 1, "weights has ", weights.ndim(), " dimensions, must have 1");
    const std::size_t size = weights.shape(0);
    const AdamTensors tensors{floats<float>(weights, "weights", size), floats<const float>(old, "old", size),
                              floats<float>(mean, "mean", size), floats<float>(square, "square", size)};
    const std::vector<const float*> from = dense_sources(sources, size);
    const nb::gil_scoped_release release;
    adam(tensors, settings, size, from, threads);
}

void adam_row_list(const OutArray& weights, const Array& old, const OutArray& mean, const OutArray& square,
                   const RowPairs& sources, double learning_rate, double beta1, double beta2, double epsilon,
                   double weight_decay, bool decoupled, double step, double scale, std::size_t first_row,
                   bool touched_only, std::size_t threads) {
    const AdamSettings settings =
        checked({learning_rate, beta1, beta2, epsilon, weight_decay, decoupled, step, scale});
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
    const std::vector<RowSource> from = row_sources(sources, "weights", to.rows, to.columns);
    const nb::gil_scoped_release release;
    adam_rows(tensors, settings, to.rows, to.columns, from, first_row, touched_only, threads);
}

}  // namespace

void bind_adam(nb::module_& module) {
    module.def("adam", &adam_list, nb::arg("weights"), nb::arg("old"), nb::arg("mean"), nb::arg("square"),
               nb::arg("sources"), nb::kw_only(), nb::arg("learning_rate"), nb::arg("beta1"), nb::arg("beta2"),
               nb::arg("epsilon"), nb::arg("weight_decay"), nb::arg("decoupled"), nb::arg("step"),
               nb::arg("scale") = 1.0, nb::arg("threads") = 1);
    module.def("adam_rows", &adam_row_list, nb::arg("weights"), nb::arg("old"), nb::arg("mean"), nb::arg("square"),
               nb::arg("sources"), nb::kw_only(), nb::arg("learning_rate"), nb::arg("beta1"), nb::arg("beta2"),
               nb::arg("epsilon"), nb::arg("weight_decay"), nb::arg("decoupled"), nb::arg("step"),
               nb::arg("scale") = 1.0, nb::arg("first_row") = 0, nb::arg("touched_only") = false,
               nb::arg("threads") = 1);
}
