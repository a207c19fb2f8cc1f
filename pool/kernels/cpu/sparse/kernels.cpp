// Every output is summed in the order of its list by exactly one thread, and a vector's lanes never meet, so the bits
// do not depend on level, register block, slab or thread.

#include "sparse/kernels.h"

#include "common/isa.h"
#include "sparse/column_sums_kernel.h"
#include "sparse/lists/list_sums_kernel.h"
#include "sparse/plan/plan_kernel.h"

const sparsepool::SparseKernels sparsepool::SparseKernels::SPARSEPOOL_ISA{
    sparsepool::row_sums, sparsepool::plan_forward, sparsepool::plan_backward, sparsepool::column_sums};
