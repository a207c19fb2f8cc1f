#pragma once

#include <vector>

#include "base/matrix.h"
#include "tasks/chess/cpu/kernels.h"

namespace sparsepool::chess {

// `form` is sound (check_form); l1 is even if it is pairwise.
StackLayout layout_of(const StackForm& form, std::size_t l1);

// Between a model's parameters and what the kernels read and write, bucket by bucket.

// All buckets, one after the other; `Float` is const for parameters.
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

// One bucket's parameters, as the kernels read them.
Floats packed(const Stacks& stacks, const StackLayout& layout, std::size_t bucket);

void clear(const StackSums& sums);

// Adds sums that a kernel has made, laid out like packed parameters, to those of a bucket.
void add_sums(const float* from, const StackLayout& layout, std::size_t bucket, const StackSums& to);

}  // namespace sparsepool::chess
