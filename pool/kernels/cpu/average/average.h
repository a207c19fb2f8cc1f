#pragma once

#include <cstddef>

// Averages of weights over steps. Each number is computed by itself: threads change nothing.
namespace sparsepool {

// average += rate * (weights - average), `size` numbers each.
void add_to_average(float* average, const float* weights, std::size_t size, float rate, std::size_t threads);

}  // namespace sparsepool
