#include "tasks/stockfish/native/layer_stacks.h"

#include <nanobind/stl/vector.h>

#include <string>

#include "bind/arrays.h"
#include "tasks/stockfish/native/kernels.h"

namespace nb = nanobind;

namespace sparsepool::stockfish {
namespace {

// A contiguous float32 array of exactly this shape.
template <class Float>
Float* shaped(const auto& array, const char* name, const std::vector<std::size_t>& shape) {
    require(array.dtype() == nb::dtype<float>(), name, " must be float32");
    require_shape(array, name, shape.size());
    for (std::size_t i = 0; i < shape.size(); ++i) {
        require(array.shape(i) == shape[i], name, " has ", array.shape(i), " in dimension ", i, ", must have ",
                shape[i]);
    }
    return static_cast<Float*>(array.data());
}

// fc_0, its bias, fc_1, its bias, fc_2, its bias.
template <class Float>
StacksOf<Float> stacks_of(const auto& arrays, const char* name, std::size_t buckets, std::size_t l1) {
    require(arrays.size() == 6, name, " has ", arrays.size(), " arrays, must have 6");
    const auto part = [&](std::size_t i, const std::vector<std::size_t>& shape) {
        return shaped<Float>(arrays[i], (std::string(name) + "[" + std::to_string(i) + "]").c_str(), shape);
    };
    return {buckets,
            l1,
            part(0, {buckets, kFirst, l1}),
            part(1, {buckets, kFirst}),
            part(2, {buckets, kSecond, 2 * kPaired}),
            part(3, {buckets, kSecond}),
            part(4, {buckets, kSecond}),
            part(5, {buckets})};
}

void forward(const Array& accumulated, const std::vector<Array>& parameters, const std::vector<std::size_t>& borders,
             const OutArray& first, const OutArray& second, const OutArray& out, std::size_t threads) {
    const ConstMatrix rows = matrix<const float>(accumulated, "accumulated");
    require(!borders.empty(), "borders is empty");
    const std::size_t samples = rows.rows / 2;
    const Stacks stacks = stacks_of<const float>(parameters, "parameters", borders.size() - 1, rows.columns);
    const StackMemory<float> memory{shaped<float>(first, "first", {samples, kFirst}),
                                    shaped<float>(second, "second", {samples, kSecond})};
    float* to = floats<float>(out, "out", samples);
    const nb::gil_scoped_release release;
    stacks_forward(rows, stacks, borders, memory, to, threads);
}

void backward(const Array& accumulated, const std::vector<Array>& parameters, const std::vector<std::size_t>& borders,
              const Array& first, const Array& second, const Array& grad, const std::vector<OutArray>& grad_parameters,
              const OutArray& grad_accumulated, std::size_t threads) {
    const ConstMatrix rows = matrix<const float>(accumulated, "accumulated");
    require(!borders.empty(), "borders is empty");
    const std::size_t samples = rows.rows / 2;
    const std::size_t buckets = borders.size() - 1;
    const Stacks stacks = stacks_of<const float>(parameters, "parameters", buckets, rows.columns);
    const StackSums sums = stacks_of<float>(grad_parameters, "grad_parameters", buckets, rows.columns);
    const StackMemory<const float> memory{shaped<const float>(first, "first", {samples, kFirst}),
                                          shaped<const float>(second, "second", {samples, kSecond})};
    const float* from = floats<const float>(grad, "grad", samples);
    const Matrix to{shaped<float>(grad_accumulated, "grad_accumulated", {rows.rows, rows.columns}), rows.rows,
                    rows.columns};
    const nb::gil_scoped_release release;
    stacks_backward(rows, stacks, borders, memory, from, sums, to, threads);
}

}  // namespace

void bind(nb::module_& module) {
    module.def(
        "stacks_forward", &forward, nb::arg("accumulated"), nb::arg("parameters"), nb::arg("borders"), nb::arg("first"),
        nb::arg("second"), nb::arg("out"), nb::arg("threads") = 1,
        R"(The layer stacks of the stockfish task, forward; the maths is in pool/tasks/stockfish/native/layer_stacks.h. All float32.

accumulated [2 * B, L], own perspectives first. parameters: weight and bias of fc_0 ([S, 16, L], [S, 16]), fc_1
([S, 32, 30], [S, 32]) and fc_2 ([S, 32], [S]). borders [S + 1]: samples of each stack, from 0 to B.
Written: out [B]; for backward first [B, 16] and second [B, 32].)");
    module.def("stacks_backward", &backward, nb::arg("accumulated"), nb::arg("parameters"), nb::arg("borders"),
               nb::arg("first"), nb::arg("second"), nb::arg("grad"), nb::arg("grad_parameters"),
               nb::arg("grad_accumulated"), nb::arg("threads") = 1,
               R"(Backward of stacks_forward: `grad` [B] is that of its out, first and second are what it left.

Written: grad_parameters and grad_accumulated, shaped like parameters and accumulated.)");
}

}  // namespace sparsepool::stockfish
