#pragma once

#include <vector>

#include "base/matrix.h"
#include "tasks/chess/cpu/kernels.h"

namespace sparsepool::chess {

// `form` is checked (check_form); l1 is even for products of pairs.
StackLayout layout_of(const StackForm& form, std::size_t l1);

// The parameters of a model, or their gradients, for all buckets. `Float` is const for parameters.
template <class Float>
struct StacksOf {
    struct Layer {
        Float* weight;  // [buckets][outputs][inputs]; of the last layer [buckets][inputs]
        Float* bias;    // [buckets][outputs]
    };

    const StackForm& form;
    std::size_t buckets, l1;
    std::vector<Layer> layers;  // hidden ones, then the last
};
using Stacks = StacksOf<const float>;
using StackSums = StacksOf<float>;

// The parameters of one bucket in the layout of the kernels.
Floats pack_bucket(const Stacks& stacks, const StackLayout& layout, std::size_t bucket);

void clear(const StackSums& sums);

// Adds sums in the layout of the kernels to those of a bucket.
void add_sums(const float* from, const StackLayout& layout, std::size_t bucket, const StackSums& to);

}  // namespace sparsepool::chess
