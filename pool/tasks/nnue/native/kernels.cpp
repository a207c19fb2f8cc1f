#include "tasks/nnue/native/kernels.h"

#include "common/isa.h"
#include "tasks/nnue/native/layer_stacks_kernel.h"

const sparsepool::nnue::StackKernels sparsepool::nnue::StackKernels::SPARSEPOOL_ISA{sparsepool::nnue::stack_forward,
                                                                                    sparsepool::nnue::stack_backward};
