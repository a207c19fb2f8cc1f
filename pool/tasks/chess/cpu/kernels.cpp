#include "tasks/chess/cpu/kernels.h"

#include "common/isa.h"
#include "tasks/chess/cpu/first_layers_kernel.h"
#include "tasks/chess/cpu/stack_kernel.h"

const sparsepool::chess::StackKernels sparsepool::chess::StackKernels::SPARSEPOOL_ISA{
    sparsepool::chess::stack_forward, sparsepool::chess::stack_backward, sparsepool::chess::tail_forward,
    sparsepool::chess::tail_backward, sparsepool::chess::first_forward,  sparsepool::chess::first_backward};
