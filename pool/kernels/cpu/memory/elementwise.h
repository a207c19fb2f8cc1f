#pragma once

#include <cstddef>

#include "base/matrix.h"
#include "base/numbers.h"

// Averages of weights over steps. Each number is computed by itself: threads change nothing.
namespace sparsepool {

// average += rate * (weights - average), `size` numbers each.
void add_to_average(float* average, const float* weights, std::size_t size, float rate, std::size_t threads);

// Rounds float32 to bfloat16, to nearest even. Each number is rounded by itself: the number of threads changes nothing.
// A number beyond the largest bfloat16 becomes an infinity, and a NaN stays a NaN.

// Returns whether all rounded numbers are finite.
bool round_numbers(BFloat16* to, const float* from, std::size_t size, std::size_t threads);

// Row i of `to` is row rows[i] of `from`; `rows` strictly ascending and within the table: std::invalid_argument if not.
bool round_rows(BFloat16* to, ConstMatrix from, const Numbers& rows, std::size_t threads);

}  // namespace sparsepool
