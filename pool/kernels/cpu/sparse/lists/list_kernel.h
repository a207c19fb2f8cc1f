#pragma once

#include "arrays/typed.h"
#include "sparse/kernels.h"
#include "vector/vec.h"

// Lists of rows with or without values, as the kernels of row_sums take them.
namespace sparsepool {
namespace {

template <class Number>
struct List {
    const Number* index;
    const float* values;  // as many; null: ones
    std::size_t size;
    bool prefetch;  // index goes on for kAhead numbers after the list
};

// What row number k of the list adds, of the row's part that was loaded.
template <bool kWeighted, class Number, class Register>
Register term(const List<Number>& list, std::size_t k, Register row) {
    if constexpr (kWeighted) {
        return Register::all(list.values[k]) * row;
    } else {
        return row;
    }
}

// Finds what is not finite among all that it is given.
class Finite {
  public:
    void see(Vec sum) { seen_ = seen_ + (sum - sum); }  // finite: 0; else NaN, which stays

    bool all() const {
        alignas(64) float lanes[Vec::kWidth];
        seen_.store(lanes);
        bool finite = true;
        for (const float lane : lanes) finite = finite && lane == 0.0F;
        return finite;
    }

  private:
    Vec seen_ = Vec::zero();
};

}  // namespace
}  // namespace sparsepool
