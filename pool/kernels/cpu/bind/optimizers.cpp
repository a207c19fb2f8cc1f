#include <cstring>
#include <string>

#include "bind/bind.h"
#include "bind/source_lists.h"
#include "optim/step.h"

namespace nb = nanobind;
namespace sparsepool {
namespace {

using nb::literals::operator""_a;

using States = std::vector<OutArray>;
using Constants = std::vector<float>;

// The constants of a step, in the order of the rule's fields.
template <template <class> class Rule>
Rule<float> rule_of(const Constants& numbers) {
    Rule<float> rule;
    constexpr std::size_t kNumbers = sizeof(rule) / sizeof(float);
    require(numbers.size() == kNumbers, "there are ", numbers.size(), " constants, must be ", kNumbers);
    std::memcpy(&rule, numbers.data(), sizeof(rule));
    return rule;
}

// The arguments of a step. check<Float>(array, name, is_row_state) checks an array and returns its memory.
template <template <class> class Rule, class Check>
Step<Rule> make_step(const OutArray& weights, const Array& old_weights, const States& states,
                     const Constants& constants, double scale, bool row_wise, const Check& check) {
    Step<Rule> step{{}, rule_of<Rule>(constants)};
    step.tensors.weights = check.template operator()<float>(weights, "weights", false);
    step.tensors.old_weights = check.template operator()<const float>(old_weights, "old", false);
    step.tensors.scale = static_cast<float>(scale);
    constexpr std::size_t kStates = Rule<float>::kStates;
    require(states.size() == kStates, "there are ", states.size(), " states, must be ", kStates);
    for (std::size_t s = 0; s < kStates; ++s) {
        const std::string name = "state " + std::to_string(s);
        step.tensors.states[s] = check.template operator()<float>(states[s], name.c_str(), row_wise);
    }
    return step;
}

// Steps tensors of any shape.
template <template <class> class Rule>
void step_dense(Kernels<Rule> kernels, const OutArray& weights, const Array& old_weights, const States& states,
                const std::vector<Array>& sources, const Constants& constants, const Leaves& leaves, double scale,
                std::size_t threads) {
    const std::size_t size = weights.size();
    const auto check = [=]<class Float>(const auto& array, const char* name, bool /*is_row_state*/) {
        return flat_floats<Float>(array, name, size);
    };
    const auto step = make_step<Rule>(weights, old_weights, states, constants, scale, false, check);
    const Sources from = dense_sources(sources, leaves, size);
    const nb::gil_scoped_release release;
    run_step<Rule>(kernels, step, from, size, threads);
}

// Steps a table [R, C]. With `row_wise` a state is [R, 1].
template <template <class> class Rule>
void step_table(Kernels<Rule> kernels, bool row_wise, const OutArray& weights, const Array& old_weights,
                const States& states, const RowPairs& sources, const Constants& constants, const Leaves& leaves,
                double scale, std::size_t first_row, bool touched_only, std::size_t threads) {
    const Matrix to = matrix<float>(weights, "weights");
    const auto check = [=]<class Float>(const auto& array, const char* name, bool is_row_state) {
        const auto table = matrix<Float>(array, name);
        const std::size_t columns = is_row_state ? 1 : to.columns;
        require(table.rows == to.rows && table.columns == columns, name, " is [", table.rows, ", ", table.columns,
                "], but weights is [", to.rows, ", ", to.columns, "]");
        return table.data;
    };
    auto step = make_step<Rule>(weights, old_weights, states, constants, scale, row_wise, check);
    step.tensors.touched_only = touched_only;
    const auto from = row_sources(sources, leaves, "weights", to.rows, to.columns, first_row);
    const nb::gil_scoped_release release;
    run_row_step<Rule>(kernels, step, from, first_row, to.rows, to.columns, threads);
}

// Binds NAME, which steps tensors of any shape, and NAME_rows, which steps a table.
template <template <class> class Rule>
void define(nb::module_& module, const std::string& name, Kernels<Rule> kernels, const char* doc,
            bool row_wise = false) {
    module.def(
        name.c_str(),
        [kernels](const OutArray& weights, const Array& old_weights, const States& states,
                  const std::vector<Array>& sources, const Constants& constants, const Leaves& leaves, double scale,
                  std::size_t threads) {
            step_dense<Rule>(kernels, weights, old_weights, states, sources, constants, leaves, scale, threads);
        },
        "weights"_a, "old"_a, "states"_a, "sources"_a, nb::kw_only(), "constants"_a, "leaves"_a = nb::none(),
        "scale"_a = 1.0, "threads"_a = 1, doc);
    module.def((name + "_rows").c_str(),
               [kernels, row_wise](const OutArray& weights, const Array& old_weights, const States& states,
                                   const RowPairs& sources, const Constants& constants, const Leaves& leaves,
                                   double scale, std::size_t first_row, bool touched_only, std::size_t threads) {
                   step_table<Rule>(kernels, row_wise, weights, old_weights, states, sources, constants, leaves, scale,
                                    first_row, touched_only, threads);
               },
               "weights"_a, "old"_a, "states"_a, "sources"_a, nb::kw_only(), "constants"_a, "leaves"_a = nb::none(),
               "scale"_a = 1.0, "first_row"_a = 0, "touched_only"_a = false, "threads"_a = 1,
               "The same for a table [R, C] whose sources are those of `reduce_rows`.");
}

}  // namespace

void bind_optimizers(nb::module_& module) {
    define<rules::Adam>(module, "adam", &StepKernels::adam,
                        R"(A step of Adam whose gradient is the sum of the sources, in one pass.

All float32 of one size, sources also bfloat16. weights are written, old are those of the version before (or the same
memory); states, m and v, change in place. Formula and constants, in their order: pool/kernels/rules.cuh. The same bits as
`reduce` and then this with the sum alone. Of a table with `touched_only`, rows that no source touched keep their states,
and those of `weights` are not written.)");
    define<rules::RangerLite>(module, "ranger_lite", &StepKernels::ranger_lite,
                              "A step of RangerLite, as `adam`: rules.cuh.");
    define<rules::RangerLiteLookahead>(module, "ranger_lite_lookahead", &StepKernels::ranger_lite_lookahead,
                                       "The same, and lookahead: rules.cuh.");
    define<rules::ClippedAdamW>(module, "clipped_adamw", &StepKernels::clipped_adamw,
                                "A step of bullet's AdamW, as `adam`: pool/kernels/cpu/optim/rules.h.");
    define<rules::Adagrad>(
        module, "adagrad", &StepKernels::adagrad,
        "A step of Adagrad, as `adam`: pool/kernels/cpu/optim/rules.h. Of a table row-wise: its state "
        "is [R, 1].",
        true);
    define<rules::Ftrl>(module, "ftrl", &StepKernels::ftrl,
                        "A step of FTRL-proximal, as `adam`: pool/kernels/cpu/optim/rules.h.");
}

}  // namespace sparsepool
