#include "optim/optimizers.h"
#include "bind/bind.h"
#include "bind/source_lists.h"

namespace nb = nanobind;
namespace sparsepool {
namespace {

using nb::literals::operator""_a;

struct State {
    const OutArray& array;
    const char* name;
    bool row_wise = false;  // [R, 1] of a table [R, C]
};

// step(tensors, gradient) for numbers [n].
void dense(const OutArray& weights, const Array& old, std::initializer_list<State> states,
           const std::vector<Array>& sources, const Places& places, double scale, const auto& step) {
    require(weights.ndim() == 1, "weights has ", weights.ndim(), " dimensions, must have 1");
    const std::size_t size = weights.shape(0);
    StepTensors tensors{
        floats<float>(weights, "weights", size), floats<const float>(old, "old", size), {nullptr, nullptr}, scale};
    std::size_t s = 0;
    for (const State& state : states) tensors.states[s++] = floats<float>(state.array, state.name, size);
    const Sources from = dense_sources(sources, places, size);
    const nb::gil_scoped_release release;
    step(tensors, DenseGradient{size, from});
}

// The same for a table [R, C].
void by_rows(const OutArray& weights, const Array& old, std::initializer_list<State> states, const RowPairs& sources,
             const Places& places, double scale, std::size_t first_row, bool touched_only, const auto& step) {
    const Matrix to = matrix<float>(weights, "weights");
    const auto check = [&](const ConstMatrix& found, const char* name, std::size_t columns) {
        require(found.rows == to.rows && found.columns == columns, name, " is [", found.rows, ", ", found.columns,
                "], but weights is [", to.rows, ", ", to.columns, "]");
    };
    const ConstMatrix before = matrix<const float>(old, "old");
    check(before, "old", to.columns);
    StepTensors tensors{to.data, before.data, {nullptr, nullptr}, scale};
    std::size_t s = 0;
    for (const State& state : states) {
        check(matrix<const float>(state.array, state.name), state.name, state.row_wise ? 1 : to.columns);
        tensors.states[s++] = static_cast<float*>(state.array.data());
    }
    const std::vector<RowSource> from = row_sources(sources, places, "weights", to.rows, to.columns, first_row);
    const nb::gil_scoped_release release;
    step(tensors, RowGradient{to.rows, to.columns, from, first_row, touched_only});
}

AdamSettings checked(const AdamSettings& settings) {
    require(settings.step >= 1, "step must be at least 1, not ", settings.step);
    return settings;
}

}  // namespace

void bind_optimizers(nb::module_& module) {
    module.def(
        "adam",
        [](const OutArray& weights, const Array& old, const OutArray& mean, const OutArray& square,
           const std::vector<Array>& sources, const Places& places, double learning_rate, double beta1, double beta2,
           double epsilon, double weight_decay, bool decoupled, double step, double scale, std::size_t threads) {
            const AdamSettings settings =
                checked({learning_rate, beta1, beta2, epsilon, weight_decay, decoupled, step});
            dense(weights, old, {{mean, "mean"}, {square, "square"}}, sources, places, scale,
                  [&](const auto& tensors, const auto& gradient) { adam(tensors, settings, gradient, threads); });
        },
        "weights"_a, "old"_a, "mean"_a, "square"_a, "sources"_a, nb::kw_only(), "places"_a = nb::none(),
        "learning_rate"_a, "beta1"_a, "beta2"_a, "epsilon"_a, "weight_decay"_a, "decoupled"_a, "step"_a,
        "scale"_a = 1.0, "threads"_a = 1,
        R"(A step of Adam whose gradient is the fold of the sources, in one pass; formula: pool/kernels/cpu/optim/optimizers.h.

All float32 [n], sources also bfloat16. weights are written, old are those of the version before (or the same
memory); mean and square, the moments, change in place. `step` counts from 1. The same bits as `fold` and then this
with the sum alone.)");
    module.def(
        "adam_rows",
        [](const OutArray& weights, const Array& old, const OutArray& mean, const OutArray& square,
           const RowPairs& sources, const Places& places, double learning_rate, double beta1, double beta2,
           double epsilon, double weight_decay, bool decoupled, double step, double scale, std::size_t first_row,
           bool touched_only, std::size_t threads) {
            const AdamSettings settings =
                checked({learning_rate, beta1, beta2, epsilon, weight_decay, decoupled, step});
            by_rows(weights, old, {{mean, "mean"}, {square, "square"}}, sources, places, scale, first_row, touched_only,
                    [&](const auto& tensors, const auto& gradient) { adam(tensors, settings, gradient, threads); });
        },
        "weights"_a, "old"_a, "mean"_a, "square"_a, "sources"_a, nb::kw_only(), "places"_a = nb::none(),
        "learning_rate"_a, "beta1"_a, "beta2"_a, "epsilon"_a, "weight_decay"_a, "decoupled"_a, "step"_a,
        "scale"_a = 1.0, "first_row"_a = 0, "touched_only"_a = false, "threads"_a = 1,
        R"(The same for a table [R, C] whose sources are those of `fold_rows`.

With `touched_only`, rows that no source touched keep their moments, and those of `weights` are not written.)");
    module.def(
        "clipped_adamw",
        [](const OutArray& weights, const Array& old, const OutArray& mean, const OutArray& square,
           const std::vector<Array>& sources, const Places& places, double learning_rate, double beta1, double beta2,
           double epsilon, double weight_decay, double lowest, double highest, double scale, std::size_t threads) {
            const ClippedAdamWSettings settings{learning_rate, beta1, beta2, epsilon, weight_decay, lowest, highest};
            dense(weights, old, {{mean, "mean"}, {square, "square"}}, sources, places, scale,
                  [&](const auto& tensors, const auto& gradient) {
                      clipped_adamw(tensors, settings, gradient, threads);
                  });
        },
        "weights"_a, "old"_a, "mean"_a, "square"_a, "sources"_a, nb::kw_only(), "places"_a = nb::none(),
        "learning_rate"_a, "beta1"_a, "beta2"_a, "epsilon"_a, "weight_decay"_a, "lowest"_a, "highest"_a,
        "scale"_a = 1.0, "threads"_a = 1,
        R"(A step of bullet's AdamW, as `adam`; formula: pool/kernels/cpu/optim/optimizers.h. All float32 [n].)");
    module.def(
        "clipped_adamw_rows",
        [](const OutArray& weights, const Array& old, const OutArray& mean, const OutArray& square,
           const RowPairs& sources, const Places& places, double learning_rate, double beta1, double beta2,
           double epsilon, double weight_decay, double lowest, double highest, double scale, std::size_t first_row,
           bool touched_only, std::size_t threads) {
            const ClippedAdamWSettings settings{learning_rate, beta1, beta2, epsilon, weight_decay, lowest, highest};
            by_rows(weights, old, {{mean, "mean"}, {square, "square"}}, sources, places, scale, first_row, touched_only,
                    [&](const auto& tensors, const auto& gradient) {
                        clipped_adamw(tensors, settings, gradient, threads);
                    });
        },
        "weights"_a, "old"_a, "mean"_a, "square"_a, "sources"_a, nb::kw_only(), "places"_a = nb::none(),
        "learning_rate"_a, "beta1"_a, "beta2"_a, "epsilon"_a, "weight_decay"_a, "lowest"_a, "highest"_a,
        "scale"_a = 1.0, "first_row"_a = 0, "touched_only"_a = false, "threads"_a = 1,
        R"(Of a table [R, C], as `adam_rows`.)");
    module.def(
        "adagrad",
        [](const OutArray& weights, const Array& old, const OutArray& sum, const std::vector<Array>& sources,
           const Places& places, double learning_rate, double epsilon, double weight_decay, double scale,
           std::size_t threads) {
            const AdagradSettings settings{learning_rate, epsilon, weight_decay};
            dense(weights, old, {{sum, "sum"}}, sources, places, scale,
                  [&](const auto& tensors, const auto& gradient) { adagrad(tensors, settings, gradient, threads); });
        },
        "weights"_a, "old"_a, "sum"_a, "sources"_a, nb::kw_only(), "places"_a = nb::none(), "learning_rate"_a,
        "epsilon"_a, "weight_decay"_a, "scale"_a = 1.0, "threads"_a = 1,
        R"(A step of Adagrad, as `adam`; formula: pool/kernels/cpu/optim/optimizers.h. All float32 [n].)");
    module.def(
        "rowwise_adagrad",
        [](const OutArray& weights, const Array& old, const OutArray& sum, const RowPairs& sources,
           const Places& places, double learning_rate, double epsilon, double weight_decay, double scale,
           std::size_t first_row, bool touched_only, std::size_t threads) {
            const AdagradSettings settings{learning_rate, epsilon, weight_decay};
            by_rows(weights, old, {{sum, "sum", true}}, sources, places, scale, first_row, touched_only,
                    [&](const auto& tensors, const auto& gradient) { adagrad(tensors, settings, gradient, threads); });
        },
        "weights"_a, "old"_a, "sum"_a, "sources"_a, nb::kw_only(), "places"_a = nb::none(), "learning_rate"_a,
        "epsilon"_a, "weight_decay"_a, "scale"_a = 1.0, "first_row"_a = 0, "touched_only"_a = false, "threads"_a = 1,
        R"(Of a table [R, C], as `adam_rows`: sum, float32 [R, 1], gets the mean of each row's squares.)");
    module.def(
        "ftrl",
        [](const OutArray& weights, const Array& old, const OutArray& linear, const OutArray& square,
           const std::vector<Array>& sources, const Places& places, double learning_rate, double beta, double l1,
           double l2, double scale, std::size_t threads) {
            const FtrlSettings settings{learning_rate, beta, l1, l2};
            dense(weights, old, {{linear, "linear"}, {square, "square"}}, sources, places, scale,
                  [&](const auto& tensors, const auto& gradient) { ftrl(tensors, settings, gradient, threads); });
        },
        "weights"_a, "old"_a, "linear"_a, "square"_a, "sources"_a, nb::kw_only(), "places"_a = nb::none(),
        "learning_rate"_a, "beta"_a, "l1"_a, "l2"_a, "scale"_a = 1.0, "threads"_a = 1,
        R"(A step of FTRL-proximal, as `adam`; formula: pool/kernels/cpu/optim/optimizers.h. All float32 [n].)");
    module.def(
        "ftrl_rows",
        [](const OutArray& weights, const Array& old, const OutArray& linear, const OutArray& square,
           const RowPairs& sources, const Places& places, double learning_rate, double beta, double l1, double l2,
           double scale, std::size_t first_row, bool touched_only, std::size_t threads) {
            const FtrlSettings settings{learning_rate, beta, l1, l2};
            by_rows(weights, old, {{linear, "linear"}, {square, "square"}}, sources, places, scale, first_row,
                    touched_only,
                    [&](const auto& tensors, const auto& gradient) { ftrl(tensors, settings, gradient, threads); });
        },
        "weights"_a, "old"_a, "linear"_a, "square"_a, "sources"_a, nb::kw_only(), "places"_a = nb::none(),
        "learning_rate"_a, "beta"_a, "l1"_a, "l2"_a, "scale"_a = 1.0, "first_row"_a = 0, "touched_only"_a = false,
        "threads"_a = 1, R"(Of a table [R, C], as `adam_rows`.)");
}

}  // namespace sparsepool
