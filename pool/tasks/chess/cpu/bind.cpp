#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>

#include "base/lists.h"
#include "bind/arrays.h"
#include "tasks/chess/cpu/first_layers.h"
#include "tasks/chess/cpu/integer_layers.h"
#include "tasks/chess/cpu/layer_stacks.h"

namespace nb = nanobind;

namespace sparsepool::chess {
namespace {

using Hidden = std::tuple<std::size_t, std::size_t, std::string, float>;

FirstActivation first_activation(const std::string& name) {
    if (name == "pairwise") return FirstActivation::kPairwise;
    if (name == "screlu") return FirstActivation::kSquared;
    require(name == "crelu", "first is '", name, "', must be pairwise, crelu or screlu");
    return FirstActivation::kClipped;
}

HiddenActivation hidden_activation(const std::string& name) {
    if (name == "both") return HiddenActivation::kBoth;
    if (name == "screlu") return HiddenActivation::kSquared;
    require(name == "crelu", "a hidden layer has '", name, "', must be both, crelu or screlu");
    return HiddenActivation::kClipped;
}

void make_form(StackForm* form, const std::string& first, float largest_sum, const std::vector<Hidden>& hidden,
               float largest_input, bool all_activations, std::size_t skips, float product_factor, float product_one,
               float hidden_one) {
    StackForm result{first_activation(first), largest_sum, {},        largest_input, all_activations, skips,
                     product_factor,          product_one, hidden_one};
    if (result.first == FirstActivation::kPairwise && product_one > 0) result.first = FirstActivation::kCutPairs;
    for (const auto& [outputs, active, activation, factor] : hidden) {
        result.hidden.push_back({outputs, active, hidden_activation(activation), factor});
    }
    check_form(result);
    new (form) StackForm(std::move(result));
}

void require_exact_shape(const auto& array, const std::string& name, const std::vector<std::size_t>& shape) {
    require_shape(array, name.c_str(), shape.size());
    for (std::size_t i = 0; i < shape.size(); ++i) {
        require(array.shape(i) == shape[i], name, " has ", array.shape(i), " in dimension ", i, ", must have ",
                shape[i]);
    }
}

// The memory of a contiguous float32 array of exactly this shape.
template <class Float>
Float* floats_of_shape(const auto& array, const std::string& name, const std::vector<std::size_t>& shape) {
    require(array.dtype() == nb::dtype<float>(), name, " must be float32");
    require_exact_shape(array, name, shape);
    return static_cast<Float*>(array.data());
}

// Checks the arrays of all layers, weight and bias of each: parameters or their gradients.
template <class Float>
StacksOf<Float> stacks_of(const StackForm& form, const auto& arrays, const std::string& name, std::size_t buckets,
                          std::size_t l1) {
    const std::size_t layers = form.hidden.size() + 1;
    require(arrays.size() == 2 * layers, name, " has ", arrays.size(), " arrays, must have ", 2 * layers);
    StacksOf<Float> stacks{form, buckets, l1, {}};
    for (std::size_t k = 0; k < layers; ++k) {
        const std::size_t inputs = form.inputs(k, l1);
        const auto array_of = [&](std::size_t i, const std::vector<std::size_t>& shape) {
            return floats_of_shape<Float>(arrays[i], name + "[" + std::to_string(i) + "]", shape);
        };
        const std::size_t weight = 2 * k;
        const std::size_t bias = 2 * k + 1;
        if (k + 1 < layers) {
            const std::size_t outputs = form.hidden[k].outputs;
            stacks.layers.push_back({array_of(weight, {buckets, outputs, inputs}), array_of(bias, {buckets, outputs})});
        } else {
            stacks.layers.push_back({array_of(weight, {buckets, inputs}), array_of(bias, {buckets})});
        }
    }
    return stacks;
}

void forward(const StackForm& form, const Array& accumulated, const std::vector<Array>& parameters,
             const std::vector<std::size_t>& borders, const OutArray& memory, const OutArray& out,
             std::size_t threads) {
    const ConstMatrix rows = matrix<const float>(accumulated, "accumulated");
    require(!borders.empty(), "borders is empty");
    const Stacks stacks = stacks_of<const float>(form, parameters, "parameters", borders.size() - 1, rows.columns);
    const Matrix kept = matrix<float>(memory, "memory");
    float* to = floats<float>(out, "out", rows.rows / 2);
    const nb::gil_scoped_release release;
    stacks_forward(rows, stacks, borders, kept, to, threads);
}

void backward(const StackForm& form, const Array& accumulated, const std::vector<Array>& parameters,
              const std::vector<std::size_t>& borders, const Array& memory, const Array& grad,
              const std::vector<OutArray>& grad_parameters, const OutArray& grad_accumulated, std::size_t threads) {
    const ConstMatrix rows = matrix<const float>(accumulated, "accumulated");
    require(!borders.empty(), "borders is empty");
    const std::size_t buckets = borders.size() - 1;
    const Stacks stacks = stacks_of<const float>(form, parameters, "parameters", buckets, rows.columns);
    const StackSums sums = stacks_of<float>(form, grad_parameters, "grad_parameters", buckets, rows.columns);
    const ConstMatrix kept = matrix<const float>(memory, "memory");
    const float* from = floats<const float>(grad, "grad", rows.rows / 2);
    const Matrix to{floats_of_shape<float>(grad_accumulated, "grad_accumulated", {rows.rows, rows.columns}), rows.rows,
                    rows.columns};
    const nb::gil_scoped_release release;
    stacks_backward(rows, stacks, borders, kept, from, sums, to, threads);
}

void forward_along(const SparsePlan& plan, const StackForm& form, const Array& table, const Array& bias,
                   const std::vector<Array>& parameters, const std::vector<std::size_t>& borders,
                   const OutArray& activations, const OutArray& memory, const OutArray& out, std::size_t threads) {
    const ConstMatrix rows = matrix<const float>(table, "table");
    const float* start = floats<const float>(bias, "bias", rows.columns);
    require(!borders.empty(), "borders is empty");
    const Stacks stacks = stacks_of<const float>(form, parameters, "parameters", borders.size() - 1, rows.columns);
    const Matrix clamped = matrix<float>(activations, "activations");
    const Matrix kept = matrix<float>(memory, "memory");
    float* to = floats<float>(out, "out", borders.back());
    const nb::gil_scoped_release release;
    first_layers_forward(plan, rows, start, stacks, borders, clamped, kept, to, threads);
}

void backward_tails(const StackForm& form, std::size_t l1, const std::vector<Array>& parameters,
                    const std::vector<std::size_t>& borders, const Array& memory, const Array& grad,
                    const std::vector<OutArray>& grad_parameters, const OutArray& grad_outputs, std::size_t threads) {
    require(!borders.empty(), "borders is empty");
    require(!form.hidden.empty(), "there is no hidden layer");
    const std::size_t buckets = borders.size() - 1;
    const Stacks stacks = stacks_of<const float>(form, parameters, "parameters", buckets, l1);
    const StackSums sums = stacks_of<float>(form, grad_parameters, "grad_parameters", buckets, l1);
    const ConstMatrix kept = matrix<const float>(memory, "memory");
    const float* from = floats<const float>(grad, "grad", borders.back());
    const std::size_t outputs = form.hidden[0].outputs;
    const Matrix to{floats_of_shape<float>(grad_outputs, "grad_outputs", {borders.back(), outputs}), borders.back(),
                    outputs};
    const nb::gil_scoped_release release;
    tails_backward(stacks, borders, kept, from, sums, to, threads);
}

void backward_along(const SparsePlan& plan, const StackForm& form, const std::vector<Array>& parameters,
                    const std::vector<std::size_t>& borders, const Array& activations, const Array& grad_outputs,
                    const OutArray& grad_table, const OutArray& column_sums, const OutArray& grad_weight,
                    std::size_t first_tile, std::optional<std::size_t> last_tile, std::size_t threads) {
    const Matrix table = matrix<float>(grad_table, "grad_table");
    require(!borders.empty(), "borders is empty");
    require(!form.hidden.empty(), "there is no hidden layer");
    const std::size_t buckets = borders.size() - 1;
    const Stacks stacks = stacks_of<const float>(form, parameters, "parameters", buckets, table.columns);
    const ConstMatrix clamped = matrix<const float>(activations, "activations");
    const std::size_t outputs = form.hidden[0].outputs;
    const ConstMatrix from{floats_of_shape<const float>(grad_outputs, "grad_outputs", {borders.back(), outputs}),
                           borders.back(), outputs};
    float* sums = floats<float>(column_sums, "column_sums", table.columns);
    float* weight =
        floats_of_shape<float>(grad_weight, "grad_weight", {buckets, outputs, form.inputs(0, table.columns)});
    const nb::gil_scoped_release release;
    first_layers_backward(plan, stacks, borders, clamped, from, table, sums, weight, first_tile,
                          last_tile.value_or(plan.num_tiles()), threads);
}

using NamedTables = std::vector<std::tuple<std::size_t, Array>>;

template <class Integer>
bool has_type(const auto& array) {
    return array.dtype() == nb::dtype<Integer>();
}

template <class Integer>
IntegerTable<Integer> integer_table(const Array& rows, std::size_t first, std::size_t columns) {
    require_shape(rows, "rows", 2);
    require(rows.shape(1) == columns, "rows have ", rows.shape(1), " columns, out has ", columns);
    return {static_cast<const Integer*>(rows.data()), first, rows.shape(0)};
}

using Bags = std::tuple<Array, Array>;  // features, offsets

SideBags check_side_bags(const Bags& bags, std::size_t positions) {
    const Numbers features = numbers(std::get<0>(bags), "features");
    require(features.wide, "features must be uint32");
    const Offsets borders = offsets(std::get<1>(bags), "offsets");
    check_bags(borders, features);
    require(positions + 1 == borders.size, "out has ", positions, " rows a side, offsets ", borders.size, " numbers");
    return {static_cast<const std::uint32_t*>(features.data), borders};
}

// The sums of both sides in an array [2, positions, columns].
template <class Sum>
std::array<Sum*, 2> side_sums(const OutArray& out) {
    auto* first = static_cast<Sum*>(out.data());
    return {first, first + out.shape(1) * out.shape(2)};
}

void sum_int32_rows(const NamedTables& arrays, const std::array<SideBags, 2>& sides, const OutArray& out,
                    std::size_t threads) {
    const std::size_t columns = out.shape(2);
    std::vector<IntegerTable<std::int32_t>> tables;
    for (const auto& [first, rows] : arrays) {
        require(has_type<std::int32_t>(rows), "rows must be int32, as out is");
        tables.push_back(integer_table<std::int32_t>(rows, first, columns));
    }
    const nb::gil_scoped_release release;
    sum_rows(tables, sides, side_sums<std::int32_t>(out), columns, threads);
}

void sum_int16_rows(const NamedTables& arrays, const std::optional<Array>& start_array,
                    const std::array<SideBags, 2>& sides, const OutArray& out, std::size_t threads) {
    const std::size_t columns = out.shape(2);
    IntegerTables tables;
    for (const auto& [first, rows] : arrays) {
        require(has_type<std::int8_t>(rows) || has_type<std::int16_t>(rows), "rows must be int8 or int16");
        if (has_type<std::int8_t>(rows)) {
            tables.narrow.push_back(integer_table<std::int8_t>(rows, first, columns));
        } else {
            tables.wide.push_back(integer_table<std::int16_t>(rows, first, columns));
        }
    }
    const std::int16_t* start = nullptr;
    if (start_array.has_value()) {
        require(has_type<std::int16_t>(*start_array), "start must be int16");
        require_shape(*start_array, "start", 1);
        require(start_array->shape(0) == columns, "start has ", start_array->shape(0), " numbers, must have ", columns);
        start = static_cast<const std::int16_t*>(start_array->data());
    }
    const nb::gil_scoped_release release;
    sum_rows(tables, start, sides, side_sums<std::int16_t>(out), columns, threads);
}

void integer_row_sums(const NamedTables& tables, const std::optional<Array>& start, const Bags& own,
                      const Bags& opponent, const OutArray& out, std::size_t threads) {
    require_shape(out, "out", 3);
    require(out.shape(0) == 2, "out has ", out.shape(0), " sides, must have 2");
    const std::size_t positions = out.shape(1);
    const std::array<SideBags, 2> sides{check_side_bags(own, positions), check_side_bags(opponent, positions)};
    check_threads(threads);
    if (has_type<std::int32_t>(out)) {
        require(!start.has_value(), "sums of int32 start at zero");
        sum_int32_rows(tables, sides, out, threads);
    } else {
        require(has_type<std::int16_t>(out), "out must be int16 or int32");
        sum_int16_rows(tables, start, sides, out, threads);
    }
}

// The memory of a contiguous array of integers of exactly this shape.
template <class Integer, class AnyArray>
auto* integers_of_shape(const AnyArray& array, const char* name, const std::vector<std::size_t>& shape) {
    require(has_type<Integer>(array), name, " is of another type");
    require_exact_shape(array, name, shape);
    using Pointer = std::conditional_t<std::is_same_v<AnyArray, OutArray>, Integer*, const Integer*>;
    return static_cast<Pointer>(array.data());
}

template <class Input, class Weight>
void integer_products_of(const Array& inputs, const Array& weight, const Array& bias, const OutArray& out) {
    const std::size_t samples = inputs.shape(0), depth = inputs.shape(1), outputs = weight.shape(0);
    const auto* from = integers_of_shape<Input>(inputs, "inputs", {samples, depth});
    const auto* factors = integers_of_shape<Weight>(weight, "weight", {outputs, depth});
    const auto* start = integers_of_shape<std::int32_t>(bias, "bias", {outputs});
    auto* to = integers_of_shape<std::int32_t>(out, "out", {samples, outputs});
    const nb::gil_scoped_release release;
    add_products(from, samples, depth, factors, start, outputs, to);
}

template <class Input>
void dispatch_weight_type(const Array& inputs, const Array& weight, const Array& bias, const OutArray& out) {
    if (has_type<std::int8_t>(weight)) {
        integer_products_of<Input, std::int8_t>(inputs, weight, bias, out);
    } else {
        integer_products_of<Input, std::int16_t>(inputs, weight, bias, out);
    }
}

void integer_products(const Array& inputs, const Array& weight, const Array& bias, const OutArray& out) {
    require(inputs.ndim() == 2 && weight.ndim() == 2, "inputs and weight have 2 dimensions");
    if (has_type<std::uint32_t>(inputs)) {
        dispatch_weight_type<std::uint32_t>(inputs, weight, bias, out);
    } else {
        dispatch_weight_type<std::uint16_t>(inputs, weight, bias, out);
    }
}

}  // namespace

void bind(nb::module_& module) {
    module.def("integer_products", &integer_products, nb::arg("inputs"), nb::arg("weight"), nb::arg("bias"),
               nb::arg("out"),
               R"(A layer of an exported network: out = inputs * weight^T + bias, modulo 2^32.

inputs uint16 or uint32 [N, K], weight int8 or int16 [C, K], bias int32 [C]. Written: out int32 [N, C].)");
    module.def("integer_row_sums", &integer_row_sums, nb::arg("tables"), nb::arg("start").none(), nb::arg("own"),
               nb::arg("opponent"), nb::arg("out"), nb::arg("threads") = 1,
               R"(Sums of rows as the engine of an exported network adds them, for both sides: integers that wrap.

tables: of each the feature of its first row, and the rows [R, C], int8 or int16; int32 if out is. start int16 [C] or
None: zeros. own, opponent: features uint32 [A] and offsets uint32 [N + 1]; fastest if each position follows the one
before in a game. A feature that is in no table counts nothing. Written: out [2, N, C], int16 or int32, own first.)");
    nb::class_<StackForm>(
        module, "StackForm",
        R"(What follows the first layer of a chess network, as data; see pool/tasks/chess/cpu/form.h.)")
        .def(
            "__init__", &make_form, nb::arg("first"), nb::arg("largest_sum"), nb::arg("hidden"),
            nb::arg("largest_input"), nb::arg("all_activations"), nb::arg("skips"), nb::arg("product_factor") = 1.0F,
            nb::arg("product_one") = 0.0F, nb::arg("hidden_one") = 0.0F,
            R"(first: "pairwise", "crelu" or "screlu". hidden: outputs, activation many of them are active, "both", "crelu" or "screlu",
and what squares are multiplied with where there are both; of each hidden layer.)")
        .def("serves_first_layers", &serves_first_layers, nb::arg("l1"),
             R"(Whether first_layers_forward computes this form behind a table of so many columns.)")
        .def_prop_ro("memory_width", &memory_width, R"(Floats of a sample that forward leaves for backward.)");
    module.def(
        "stacks_forward", &forward, nb::arg("form"), nb::arg("accumulated"), nb::arg("parameters"), nb::arg("borders"),
        nb::arg("memory"), nb::arg("out"), nb::arg("threads") = 1,
        R"(The layer stacks of a chess network, forward; the maths is in pool/tasks/chess/cpu/layer_stacks.h. All float32.

accumulated [2 * B, L], own perspectives first. parameters: weight and bias of each hidden layer ([S, outputs, inputs],
[S, outputs]) and of the last ([S, inputs], [S]). borders [S + 1]: samples of each stack, from 0 to B.
Written: out [B]; for backward memory [B, form.memory_width].)");
    module.def("stacks_backward", &backward, nb::arg("form"), nb::arg("accumulated"), nb::arg("parameters"),
               nb::arg("borders"), nb::arg("memory"), nb::arg("grad"), nb::arg("grad_parameters"),
               nb::arg("grad_accumulated"), nb::arg("threads") = 1,
               R"(Backward of stacks_forward: `grad` [B] is that of its out, memory what it left.

Written: grad_parameters and grad_accumulated, shaped like parameters and accumulated.)");
    module.def(
        "first_layers_forward", &forward_along, nb::arg("plan"), nb::arg("form"), nb::arg("table"), nb::arg("bias"),
        nb::arg("parameters"), nb::arg("borders"), nb::arg("activations"), nb::arg("memory"), nb::arg("out"),
        nb::arg("threads") = 1,
        R"(stacks_forward of what plan.forward gives, in one pass along the plan: pool/tasks/chess/cpu/first_layers.h.

table [num_features, L] and bias [L]: of the first layer; form.serves_first_layers(L) is True. Written too, for backward:
activations [2 * B, L].)");
    module.def(
        "tails_backward", &backward_tails, nb::arg("form"), nb::arg("l1"), nb::arg("parameters"), nb::arg("borders"),
        nb::arg("memory"), nb::arg("grad"), nb::arg("grad_parameters"), nb::arg("grad_outputs"), nb::arg("threads") = 1,
        R"(The first part of backward of first_layers_forward: `grad` [B] is that of its out, memory what it left.

Written: grad_parameters, shaped like parameters, of which the first becomes zero; grad_outputs [B, outputs of the first
hidden layer].)");
    module.def("first_layers_backward", &backward_along, nb::arg("plan"), nb::arg("form"), nb::arg("parameters"),
               nb::arg("borders"), nb::arg("activations"), nb::arg("grad_outputs"), nb::arg("grad_table"),
               nb::arg("column_sums"), nb::arg("grad_weight"), nb::arg("first_tile") = 0,
               nb::arg("last_tile") = nb::none(), nb::arg("threads") = 1,
               R"(The second part: grad_table and column_sums as SparsePlan.backward writes them, tile by tile.

Added to: grad_weight, the first of tails_backward's grad_parameters.)");
}

}  // namespace sparsepool::chess
