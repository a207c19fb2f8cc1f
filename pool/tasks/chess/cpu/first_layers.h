#pragma once

#include <vector>

#include "base/matrix.h"
#include "sparse/sparse_plan.h"
#include "tasks/chess/cpu/layer_stacks.h"

// The first layer, what its outputs enter the layer behind it as, and that layer, in one pass over the plan of a batch:
// the first layer's outputs are not written and read again in between.
//
// The order of sums is a function of the batch and the width alone, not of threads or level. Forward: the plan's order
// for the first layer; of the dense layer the products of 128 columns of the table in ascending order for each side,
// the two sides in the plan's order, then these slabs' sums ascending, and the bias before them. Backward: the dense
// layer's weights by place of the bags in the plan, the table and its bias in the plan's order.
namespace sparsepool::chess {

// Whether there is a dense layer of a width that the kernels have, and a table as wide as they want it.
bool serves_first_layers(const StackForm& form, std::size_t l1);

// table [features][l1], bias [l1]. Writes activations [2 * samples][l1], for backward, in an order of its own; memory
// and out as stacks_forward.
void first_layers_forward(const SparsePlan& plan, ConstMatrix table, const float* bias, const Stacks& stacks,
                          const std::vector<std::size_t>& borders, Matrix activations, Matrix memory, float* out,
                          std::size_t threads);

// grad_outputs [samples][outputs] as tails_backward leaves it. Writes the touched rows of grad_table and column_sums
// [l1], the bias's gradient, as SparsePlan::backward, and adds to grad_weight [buckets][outputs][inputs], that of the
// dense layer, which the first call finds zero.
void first_layers_backward(const SparsePlan& plan, const Stacks& stacks, const std::vector<std::size_t>& borders,
                           ConstMatrix activations, ConstMatrix grad_outputs, Matrix grad_table, float* column_sums,
                           float* grad_weight, std::size_t first_tile, std::size_t last_tile, std::size_t threads);

}  // namespace sparsepool::chess
