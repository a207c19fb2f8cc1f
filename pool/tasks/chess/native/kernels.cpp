#include "tasks/chess/native/kernels.h"

#include "common/isa.h"
#include "tasks/chess/native/stack_kernel.h"

const sparsepool::chess::StackKernels sparsepool::chess::StackKernels::SPARSEPOOL_ISA{
    sparsepool::chess::stack_forward, sparsepool::chess::stack_backward};
